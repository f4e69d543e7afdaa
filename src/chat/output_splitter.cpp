#include "chat/output_splitter.h"

#include <utility>

namespace ds4 {

OutputSplitter::OutputSplitter(const SpecialTokens& special, ThinkingMode mode)
    : special_(special),
      mode_(mode),
      channel_(mode == ThinkingMode::kThinking ? Channel::kReasoning : Channel::kContent) {}

void OutputSplitter::take_text(std::string text, std::vector<OutputChunk>& out) {
  // What is held is white space already; looking at it again would cost its square.
  blank_ = blank_ && text.find_first_not_of(" \t\n\v\f\r") == std::string::npos;
  held_ += text;
  if (blank_ || held_.empty()) return;
  out.push_back({channel_, std::exchange(held_, {})});
}

// Emits all that the channel still owes.
void OutputSplitter::flush(std::vector<OutputChunk>& out) {
  take_text(utf8_.flush(), out);
  if (!held_.empty()) out.push_back({channel_, std::exchange(held_, {})});
}

// True when `token` was a marker with a meaning here, which then is no text.
bool OutputSplitter::take_marker(Token token, std::vector<OutputChunk>& out) {
  const bool closes = token == special_.think_close;
  if (!closes && token != special_.think_open) return false;
  // Bytes of a character that never came count as visible text.
  const bool blank = blank_ && utf8_.pending_bytes() == 0;
  if (channel_ == Channel::kReasoning) {
    if (closes) {
      flush(out);
      channel_ = Channel::kContent;
      blank_ = true;
      return true;
    }
    if (!blank || open_dropped_) return false;
    open_dropped_ = true;
    held_.clear();
    return true;
  }
  if (!blank) return false;
  if (!closes && mode_ == ThinkingMode::kThinking) return false;
  held_.clear();
  if (!closes) {
    channel_ = Channel::kReasoning;
    open_dropped_ = true;
  }
  return true;
}

std::vector<OutputChunk> OutputSplitter::push(Token token, std::string_view bytes) {
  std::vector<OutputChunk> out;
  if (special_.ends_turn(token) || take_marker(token, out)) return out;
  take_text(utf8_.push(bytes), out);
  return out;
}

std::vector<OutputChunk> OutputSplitter::finish() {
  std::vector<OutputChunk> out;
  flush(out);
  return out;
}

}  // namespace ds4
