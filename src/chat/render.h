#pragma once
// From a Conversation to the exact prompt DeepSeek-V4 was trained on, as pieces of two trusts:
// scaffold (markers, tags, section frames) and content (all that a client, a tool or the model
// wrote). The tokenizer finds control tokens in scaffold only, so no message can forge a turn.
//
// Where a conversation has a form in DeepSeek's own encoder, the joined text equals it byte for
// byte. docs/formats/chat.md lists the two places where we go beyond it.
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "chat/conversation.h"
#include "chat/effort.h"
#include "tokenizer/tokenizer.h"

namespace ds4 {

struct RenderOptions {
  Thinking thinking;
  EffortProfile profile = EffortProfile::kPreview;
  // Leave out the reasoning of turns before the last user turn. Declared tools switch this off: a
  // model in the middle of tool work needs to see why it made its calls.
  bool drop_thinking = true;
};

// The prompt as scaffold and content segments; neighbours differ in kind. Ends in a generation
// header unless the last turn is the assistant's (or there is no turn to answer). Errors:
// kInvalidArgument for an empty developer message, kUnsupported for call arguments nested too deep.
Result<std::vector<Segment>> render(const Conversation& conversation, const RenderOptions& options);

// The text of segments that render() made.
std::string to_text(std::span<const Segment> segments);

// render() and encode. Errors: also kUnsupported when the conversation uses a marker (a task, a
// reminder) that the vocabulary lacks; as plain text it would mean nothing to the model.
Result<std::vector<Token>> render_tokens(const Conversation& conversation,
                                         const RenderOptions& options, const Tokenizer& tokenizer);

// The control token of a task.
std::string_view task_spelling(Task task);

}  // namespace ds4
