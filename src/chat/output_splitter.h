#pragma once
// Splits the sampled tokens of one answer into reasoning and content, as text that is always whole
// UTF-8. `<think>` and `</think>` are recognised by id; spelled out in ordinary tokens they are
// text, as is a marker that comes too late. Tool-call markup is content here: finding calls in it
// is the DSML parser's work.
//
//   reasoning: a first <think> is dropped; </think> ends it. Without one everything is reasoning.
//   content:   </think> before any visible text is dropped; in chat mode <think> before any visible
//              text starts reasoning.
//
// White space at the start of either is held until visible text shows that no marker is to be
// dropped; with a dropped marker goes the white space before it. All other bytes are exact.
//
// Single-thread; `special` is copied.
#include <string>
#include <string_view>
#include <vector>

#include "chat/effort.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer/token.h"
#include "tokenizer/utf8.h"

namespace ds4 {

enum class Channel { kReasoning, kContent };

struct OutputChunk {
  Channel channel = Channel::kContent;
  std::string text;  // never empty

  bool operator==(const OutputChunk&) const = default;
};

class OutputSplitter {
 public:
  // Thinking mode starts in reasoning, chat mode in content.
  OutputSplitter(const SpecialTokens& special, ThinkingMode mode);

  // The text that this token completes: none, one chunk, or two when a channel ends with it.
  // `bytes` are the token's (Tokenizer::bytes_of). A token that ends the turn has no text.
  std::vector<OutputChunk> push(Token token, std::string_view bytes);

  // What is still held, once the answer has ended for whatever reason.
  std::vector<OutputChunk> finish();

  Channel channel() const { return channel_; }

 private:
  void take_text(std::string text, std::vector<OutputChunk>& out);
  void flush(std::vector<OutputChunk>& out);
  bool take_marker(Token token, std::vector<OutputChunk>& out);

  const SpecialTokens special_;
  const ThinkingMode mode_;
  Channel channel_;
  bool blank_ = true;          // no visible text yet in this channel
  bool open_dropped_ = false;  // the <think> that reasoning may begin with has been seen
  std::string held_;           // white space at the start of the channel
  Utf8Stream utf8_;
};

}  // namespace ds4
