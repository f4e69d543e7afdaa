#pragma once
// Numbers instead of an answer: log-probabilities of a greedy run, logits after a prompt, the
// perplexity of a text.
#include <span>
#include <string>

#include "base/result.h"
#include "engine/session.h"
#include "options.h"
#include "tokenizer/tokenizer.h"

namespace ds4::cli {

// Runs greedily after `prompt` and writes each step's choice and its likeliest alternatives to
// options.dump_logprobs as JSON (docs/man/ds4.1 has the layout). Returns the exit code. Errors:
// those of run_turn and FileWriter; an interrupted run writes what it has.
Result<int> dump_logprobs(Session& session, const Tokenizer& tokenizer,
                          std::span<const Token> prompt, const Options& options);

// Writes all logits after `prompt` to options.dump_logits as JSON. Errors as above; interrupted, it
// writes nothing.
Result<int> dump_logits(Session& session, const Tokenizer& tokenizer, std::span<const Token> prompt,
                        const Options& options);

// Scores options.perplexity_file, raw text after BOS, and prints one line. The first
// kContextTokens tokens are context only.
inline constexpr int64_t kContextTokens = 32;
Result<int> print_perplexity(Model model, const Tokenizer& tokenizer, const Options& options);

// Rows of a step of scoring, each of which takes logits: for the memory plan.
int64_t score_chunk_tokens(const Options& options);

// One line a token: id and piece.
void dump_tokens(const Tokenizer& tokenizer, const std::string& prompt);

}  // namespace ds4::cli
