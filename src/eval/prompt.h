#pragma once
// From a case to the tokens a model is given. The wording around a question is fixed: scores depend
// on it, so a change of it is a change of the evaluation (kPromptVersion).
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "chat/effort.h"
#include "eval/case.h"
#include "tokenizer/tokenizer.h"

namespace ds4::eval {

// Grows with any change of the texts in prompt.cpp.
inline constexpr int kPromptVersion = 1;

// The conversation of a case: its own, or a system text and one user message around its question.
Conversation conversation_of(const Case& c);

struct PromptOptions {
  // What a case without `think` gets; with `think_forced`, all of them.
  Thinking thinking;
  bool think_forced = false;
  EffortProfile profile = EffortProfile::kPreview;
};

struct Prompt {
  std::vector<Token> tokens;
  Thinking thinking;
  // For the trace: the system messages, and everything as it is rendered or, of a question, the
  // user message.
  std::string system, question;
};

// Errors: those of render_tokens, with the id of the case.
Result<Prompt> make_prompt(const Case& c, const PromptOptions& options, const Tokenizer& tokenizer);

// The prompt of a case followed by its expected answer, as text in which control strings are
// spelled out: a chat to calibrate or to measure with. Errors: as make_prompt.
Result<std::string> rendered_chat(const Case& c, const PromptOptions& options);

}  // namespace ds4::eval
