#pragma once
// One answer as a state machine over logits: which token comes next, when thinking has to end, when
// the answer is over. It knows no model; a test drives it with logits of its own.
//
// Thinking budget, from what remains of max_tokens before a token is chosen:
//   hard   remaining <= hard_budget and still thinking: </think> comes next
//   soft   remaining <= soft_budget and </think> is among the soft_rank likeliest: it comes next
//
// Single-thread. The tokenizer must outlive it.
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "chat/output_splitter.h"
#include "chat/tool_calls.h"
#include "engine/sampler.h"
#include "tokenizer/tokenizer.h"

namespace ds4::eval {

struct AnswerOptions {
  SamplerOptions sampler{.temperature = 0};
  int64_t max_tokens = 16000;
  int64_t soft_budget = 1024;
  int64_t hard_budget = 512;
  int64_t soft_rank = 3;
};

// Errors: kInvalidArgument naming the option, its range and the value found.
Result<void> check_answer_options(const AnswerOptions& options);

enum class CloseKind {
  kNone,     // no thinking, or it never ended
  kNatural,  // the model ended it
  kSoftForced,
  kHardForced,
};
const char* name_of(CloseKind kind);  // "none", "natural", "soft_forced", "hard_forced"

// How thinking ended.
struct ThinkClose {
  CloseKind kind = CloseKind::kNone;
  int64_t token_index = 0;  // of </think> among the generated tokens, from 0
  int64_t remaining = 0;    // of max_tokens before it
  int64_t rank = 0;         // of </think> in the logits, from 1

  bool operator==(const ThinkClose&) const = default;
};

class AnswerRun {
 public:
  // `options` must have passed check_answer_options(). With `watch_tools` the answer ends at the
  // close of a tool block.
  AnswerRun(const Tokenizer& tokenizer, const AnswerOptions& options, ThinkingMode mode,
            bool watch_tools);

  // What a step did.
  struct Step {
    std::optional<Token> token;      // to be evaluated next; nothing when the answer is over
    bool said = false;               // a token was added to the answer
    std::string reasoning, content;  // text it completed, whole UTF-8
  };

  // Chooses the token after `logits`. Errors: those of Sampler::sample; the answer is then over.
  // Must not be called once it is.
  Result<Step> next(std::span<const float> logits);

  bool finished() const { return finished_; }
  Finish finish() const { return finish_; }
  bool thinking() const { return splitter_.channel() == Channel::kReasoning; }
  int64_t generated() const { return generated_; }
  int64_t remaining() const { return options_.max_tokens - generated_; }
  const ThinkClose& think_close() const { return close_; }
  // The bytes of all tokens so far, markers included, the one that ends the turn not.
  const std::string& raw() const { return raw_; }

 private:
  Result<Token> choose(std::span<const float> logits);
  void end(Finish finish, Step& step);
  void take(std::vector<OutputChunk> chunks, Step& step);

  const Tokenizer& tokenizer_;
  const AnswerOptions options_;
  const bool watch_tools_;
  Sampler sampler_;
  OutputSplitter splitter_;
  ToolBlockWatch watch_;
  std::string raw_;
  int64_t generated_ = 0;
  ThinkClose close_;
  bool finished_ = false;
  Finish finish_ = Finish::kStop;
};

}  // namespace ds4::eval
