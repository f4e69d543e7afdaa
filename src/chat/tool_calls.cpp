#include "chat/tool_calls.h"

#include <optional>
#include <utility>

#include "chat/call_arguments.h"
#include "chat/dsml_tags.h"

namespace ds4 {
namespace {

using dsml::BlockReader;
using dsml::Ending;

bool is_blank_from(std::string_view text, int64_t from) {
  return dsml::skip_blanks(text, from) == static_cast<int64_t>(text.size());
}

std::string_view right_trimmed(std::string_view text) {
  while (!text.empty() && dsml::is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// Closers at the end that close nothing, and the white space before them: leftovers of a block the
// model thought it had written. Where something was opened, all of it stays.
std::string_view without_orphan_closers(std::string_view text) {
  int64_t begin = -1, end = 0;  // of the closers so far with only white space between them
  for (size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at)) {
    const dsml::TagStep step = dsml::read_tag(text, static_cast<int64_t>(at));
    if (step.match != dsml::TagMatch::kYes || step.tag.plain) {
      ++at;
      continue;
    }
    if (!step.tag.closes) return text;
    const bool continues = begin >= 0 && dsml::skip_blanks(text, end) == step.tag.begin;
    if (!continues) begin = step.tag.begin;
    end = step.tag.end;
    at = static_cast<size_t>(end);
  }
  if (begin < 0 || !is_blank_from(text, end)) return text;
  return right_trimmed(text.substr(0, begin));
}

// The text before a block, without the blank line that belongs to the block.
std::string_view before_block(std::string_view text) {
  if (is_blank_from(text, 0)) return {};
  for (int i = 0; i < 2 && text.ends_with('\n'); ++i) {
    text.remove_suffix(text.ends_with("\r\n") ? 2 : 1);
  }
  return text;
}

// Fills `calls`; the error otherwise.
std::string take_calls(std::string_view text, const BlockReader& reader,
                       std::span<const Tool> tools, std::vector<ToolCall>& calls) {
  constexpr const char* kMalformed = "malformed_tool_call";
  constexpr const char* kUnterminated = "unterminated_tool_call";
  if (reader.malformed()) return kMalformed;
  dsml::ToolSchemas schemas(tools);
  for (const dsml::RawCall& raw : reader.calls()) {
    auto arguments = dsml::arguments_json(text, raw, schemas);
    if (!arguments) return raw.open_body ? kUnterminated : kMalformed;
    calls.push_back({{}, raw.name, std::move(*arguments)});
  }
  return {};
}

// The model went from thinking straight to a call. Only a block that is whole, and the last thing
// the model said, is that; everything else in reasoning is thought.
bool take_call_at_end_of_reasoning(ParsedAnswer& answer, std::span<const Tool> tools) {
  const std::string_view text = answer.reasoning;
  BlockReader reader = BlockReader::at_last_opener(text);
  reader.read(text, Ending::kStopped);
  if (!reader.closed() || !is_blank_from(text, reader.block_end())) return false;
  std::vector<ToolCall> calls;
  if (!take_calls(text, reader, tools, calls).empty() || calls.empty()) return false;
  answer.calls = std::move(calls);
  answer.recovered = true;
  answer.reasoning = std::string(right_trimmed(text.substr(0, *reader.block_begin())));
  return true;
}

}  // namespace

ParsedAnswer parse_answer(std::string_view reasoning, std::string_view content, Finish finish,
                          std::span<const Tool> tools, Channel ended_in) {
  ParsedAnswer answer;
  answer.reasoning = reasoning;
  answer.content = content;
  if (tools.empty()) return answer;
  const bool stopped = finish == Finish::kStop;
  const bool in_reasoning = content.empty() && ended_in == Channel::kReasoning;
  if (in_reasoning && stopped && take_call_at_end_of_reasoning(answer, tools)) return answer;
  answer.reasoning = without_orphan_closers(reasoning);

  BlockReader reader;
  reader.read(content, stopped ? Ending::kStopped : Ending::kCut);
  if (!reader.block_begin()) {
    answer.content = without_orphan_closers(content);
    return answer;
  }
  std::vector<ToolCall> calls;
  answer.error = take_calls(content, reader, tools, calls);
  if (answer.error.empty() && stopped && reader.open_end()) answer.error = "unterminated_tool_call";
  if (!answer.error.empty()) return answer;
  answer.calls = std::move(calls);
  answer.content = before_block(content.substr(0, *reader.block_begin()));
  answer.truncated = !stopped && !reader.closed();
  return answer;
}

void ToolBlockWatch::push(std::string_view content) {
  if (reader_.closed()) return;
  text_ += content;
  reader_.read(text_, Ending::kNone);
}

}  // namespace ds4
