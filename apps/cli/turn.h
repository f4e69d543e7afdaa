#pragma once
// One answer: the prompt is read into a session, tokens are sampled until the turn ends. What ds4
// does with a single prompt, in the REPL and for the dumps is this with other hooks.
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "chat/effort.h"
#include "engine/sampler.h"
#include "engine/session.h"
#include "terminal.h"
#include "tokenizer/tokenizer.h"

namespace ds4::cli {

enum class Ended {
  kDone,               // the model ended its turn
  kLength,             // -n
  kContext,            // no room for another token
  kInterrupted,        // Ctrl-C while answering: what was said so far counts
  kInterruptedPrompt,  // Ctrl-C while the prompt was read: nothing was said
};

// "; stopped at the token limit (-n)", or nothing for an answer that ended by itself.
const char* describe(Ended ended);
// "done", "length", ...: for a trace.
const char* name_of(Ended ended);

struct TurnReport {
  Ended ended = Ended::kDone;
  int64_t prompt_tokens = 0;  // read this time or before
  SyncStats sync;
  double prompt_seconds = 0;
  int64_t answer_tokens = 0;
  double answer_seconds = 0;
  std::string reasoning, content;  // whole UTF-8
};

struct TurnRequest {
  std::span<const Token> prompt;
  ThinkingMode mode = ThinkingMode::kChat;  // how the answer begins
  int64_t max_tokens = 0;
};

struct TurnHooks {
  Screen screen;                     // for the progress line
  AnswerPrinter* printer = nullptr;  // null: nothing is printed
  TraceOps* ops = nullptr;           // told what is prefill and what decode
  // The prompt is read; logits are there.
  std::function<void(const TurnReport&)> on_prompt;
  // A token was chosen from these logits; also the one that ends the turn.
  std::function<void(Token, std::span<const float>)> on_token;
};

// Errors: those of Session::sync, Session::decode, Sampler::sample and AnswerPrinter. The session
// then holds what was evaluated.
Result<TurnReport> run_turn(Session& session, const Tokenizer& tokenizer, Sampler& sampler,
                            const TurnRequest& request, const TurnHooks& hooks);

}  // namespace ds4::cli
