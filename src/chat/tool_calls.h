#pragma once
// Tool calls in a model's answer: DSML markup in, names and arguments as JSON text out.
//
// Markup is read as leniently as sampled models need (docs/formats/chat.md has the table of what is
// repaired and what is an error) and as strictly as calls that run need: markup that is quoted,
// fenced, discussed or cut off is never a call.
//
// Pure functions, thread-safe; time and memory are linear in the text.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chat/conversation.h"
#include "chat/dsml_block.h"
#include "chat/output_splitter.h"

namespace ds4 {

enum class Finish {
  kStop,    // the model ended its answer, or ToolBlockWatch or a stop string ended it
  kLength,  // a limit did
};

struct ParsedAnswer {
  std::string reasoning, content;
  std::vector<ToolCall> calls;  // id empty; arguments: JSON text of an object
  bool recovered = false;       // the block stood at the end of reasoning that was never closed
  bool truncated = false;       // a limit cut the block; `calls` has those that were complete
  // Empty, "malformed_tool_call" or "unterminated_tool_call". On error there are no calls, and
  // `content` is all of the content, markup included: a client that gets nothing would stall.
  std::string error;
};

// `reasoning` and `content` are those of OutputSplitter, `ended_in` is its channel() at the end
// (with content, that is where it ended). Only an answer that ended in its reasoning can have a
// call there; after </think> the reasoning is text.
//
// `tools` are the declared ones; calls of others are returned too, for the client to refuse. With
// none the texts are returned as they are.
ParsedAnswer parse_answer(std::string_view reasoning, std::string_view content, Finish finish,
                          std::span<const Tool> tools, Channel ended_in = Channel::kReasoning);

// Says when to stop sampling: once the content has a tool block with its closer. What
// parse_answer() then finds is that block. Costs time linear in what is pushed, all pushes
// together. Single-thread.
class ToolBlockWatch {
 public:
  // The next piece of content; whole characters, as OutputSplitter gives them.
  void push(std::string_view content);

  bool closed() const { return reader_.closed(); }

 private:
  std::string text_;
  dsml::BlockReader reader_;
};

}  // namespace ds4
