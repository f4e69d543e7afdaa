#pragma once
// Scoring against official continuations: a greedy answer of the official model to each of some
// short prompts is fed to this one token by token, and what counts is how likely it finds each.
// Two quantizations are compared by these figures without judging a sample.
//
// The manifest is TSV: id, prompt file, continuation file, and possibly the file of the raw
// response, which is not read. `#` starts a comment; file names are relative to the manifest.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/effort.h"
#include "engine/scorer.h"
#include "tokenizer/tokenizer.h"

namespace ds4::eval {

struct Continuation {
  std::string id;
  std::string prompt, text;  // whole files, as they are
};

// Errors: kCorrupt with the manifest's name and line for a malformed line, a repeated id, text that
// is empty or not UTF-8; those of the files it names, with the line.
Result<std::vector<Continuation>> load_continuations(const std::string& manifest);

// The prompt as a chat without thinking, then the continuation as plain text.
struct ContinuationTokens {
  std::vector<Token> tokens;
  int64_t n_prompt = 0;
};
Result<ContinuationTokens> continuation_tokens(const Continuation& c, const Tokenizer& tokenizer);

struct ContinuationScore {
  std::string id;
  int64_t prompt_tokens = 0, target_tokens = 0;
  double nll = 0;             // sum over the target's tokens, nats
  bool first_match = false;   // the likeliest first token is the target's
  int64_t greedy_prefix = 0;  // leading tokens that are each the likeliest

  double nll_per_token() const { return nll / static_cast<double>(target_tokens); }
};

// Errors: those of Scorer::advance; kNonFinite.
Result<ContinuationScore> score_continuation(Scorer& scorer, const std::string& id,
                                             const ContinuationTokens& tokens);

struct ContinuationSummary {
  int64_t cases = 0, target_tokens = 0, first_matches = 0;
  double mean_nll = 0;            // a token
  double mean_greedy_prefix = 0;  // a case
};
ContinuationSummary summarize(std::span<const ContinuationScore> scores);

// A score file: a line of column names and a line a case, tab-separated; numbers read back as they
// were. Errors of the way back: kCorrupt with `name` and the line.
std::string scores_text(std::span<const ContinuationScore> scores);
Result<std::vector<ContinuationScore>> parse_scores(std::string_view text, std::string_view name);

// The comparison of two score files, ready to print. Errors: kInvalidArgument when they are not of
// the same ids with the same numbers of target tokens.
Result<std::string> compare_scores(std::span<const ContinuationScore> before,
                                   std::span<const ContinuationScore> after);

// One line a case, and the summary.
std::string score_line(const ContinuationScore& score);
std::string summary_text(const ContinuationSummary& summary);

}  // namespace ds4::eval
