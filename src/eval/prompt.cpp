#include "eval/prompt.h"

#include <fmt/format.h>

#include "chat/render.h"

namespace ds4::eval {
namespace {

constexpr std::string_view kSystem =
    "Think the question through carefully and check your result before you give it. Your reply is "
    "read by a program, so keep exactly to the form of answer that is asked for.";

constexpr std::string_view kLetter =
    "End your reply with exactly one line of the form `Answer: X`, where X is the letter of the "
    "right choice, and write nothing after it.";
constexpr std::string_view kNumber =
    "End your reply with exactly one line of the form `Answer: N`, where N is an integer, and "
    "write "
    "nothing after it.";
constexpr std::string_view kLineNumbers =
    "End your reply with exactly one line of the form `Answer: N`, where N is one or more line "
    "numbers separated by commas, and write nothing after it.";

std::string_view instruction(AnswerKind kind) {
  switch (kind) {
    case AnswerKind::kChoice:
      return kLetter;
    case AnswerKind::kInteger:
      return kNumber;
    case AnswerKind::kLineSet:
      return kLineNumbers;
    case AnswerKind::kContent:
    case AnswerKind::kToolCalls:
      break;
  }
  return {};
}

std::string user_text(const Case& c) {
  std::string text = c.question + "\n\n";
  if (!c.choices.empty()) {
    text += "Choices:\n";
    char letter = 'A';
    for (const std::string& choice : c.choices) text += fmt::format("{}. {}\n", letter++, choice);
    text += '\n';
  }
  text += instruction(c.expected.kind);
  return text;
}

}  // namespace

Conversation conversation_of(const Case& c) {
  if (c.question.empty()) return c.conversation;
  Conversation conversation;
  conversation.messages.resize(2);
  conversation.messages[0].role = Role::kSystem;
  conversation.messages[0].content = kSystem;
  conversation.messages[1].role = Role::kUser;
  conversation.messages[1].content = user_text(c);
  return conversation;
}

namespace {

Thinking thinking_of(const Case& c, const PromptOptions& options) {
  Thinking thinking = options.thinking;
  if (c.think && !options.think_forced) {
    thinking.mode = *c.think ? ThinkingMode::kThinking : ThinkingMode::kChat;
  }
  return thinking;
}

// What a right answer says.
Message expected_message(const Expected& expected) {
  Message message;
  message.role = Role::kAssistant;
  switch (expected.kind) {
    case AnswerKind::kContent:
      message.content = expected.text;
      break;
    case AnswerKind::kToolCalls:
      message.tool_calls = expected.calls;
      break;
    case AnswerKind::kChoice:
    case AnswerKind::kInteger:
      message.content = "Answer: " + expected.text;
      break;
    case AnswerKind::kLineSet: {
      std::string lines;
      for (const LineRange& range : expected.lines) {
        lines += fmt::format("{}{}", lines.empty() ? "" : ", ", range.first);
        if (range.last != range.first) lines += fmt::format("-{}", range.last);
      }
      message.content = "Answer: " + lines;
      break;
    }
  }
  return message;
}

}  // namespace

Result<Prompt> make_prompt(const Case& c, const PromptOptions& options,
                           const Tokenizer& tokenizer) {
  Prompt prompt;
  prompt.thinking = thinking_of(c, options);
  const Conversation conversation = conversation_of(c);
  const RenderOptions render_options{.thinking = prompt.thinking, .profile = options.profile};
  auto tokens = render_tokens(conversation, render_options, tokenizer);
  if (!tokens) return fail_within("case " + c.id, tokens.error());
  prompt.tokens = std::move(*tokens);
  for (const Message& message : conversation.messages) {
    if (message.role != Role::kSystem) continue;
    if (!prompt.system.empty()) prompt.system += "\n\n";
    prompt.system += message.content;
  }
  if (!c.question.empty()) {
    prompt.question = conversation.messages.back().content;
  } else {
    DS4_TRY(const std::vector<Segment> segments, render(conversation, render_options));
    prompt.question = to_text(segments);
  }
  return prompt;
}

Result<std::string> rendered_chat(const Case& c, const PromptOptions& options) {
  Conversation conversation = conversation_of(c);
  conversation.messages.push_back(expected_message(c.expected));
  const auto segments =
      render(conversation, {.thinking = thinking_of(c, options), .profile = options.profile});
  if (!segments) return fail_within("case " + c.id, segments.error());
  return to_text(*segments);
}

}  // namespace ds4::eval
