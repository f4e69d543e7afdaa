#pragma once
// How well a model predicts a text, token by token (teacher forcing), and how far its predictions
// are from those of a reference model: what a quantization costs, without judging one sample.
//
// The text is cut into windows of at most ctx_tokens, each a BOS and the tokens that follow the
// last window, so each token is predicted once. Both models read the same window in small chunks,
// one after the other, so that only one chunk's logits are kept.
//
// Log-probabilities in f64 over the whole vocabulary, in nats. KL(reference || model) of a row is
// sum p_ref * (log p_ref - log p_model).
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/scorer.h"
#include "tokenizer/token.h"

namespace ds4::eval {

// What is known of some predicted tokens. Single-thread.
class TextScore {
 public:
  // The model's logits before `next`, and those of the reference unless empty. Errors: kNonFinite,
  // kInvalidArgument for a token outside the vocabulary.
  Result<void> add(std::span<const float> logits, Token next,
                   std::span<const float> reference = {});

  int64_t n_tokens() const { return n_tokens_; }
  double nll() const { return nll_; }               // sum; mean is nll() / n_tokens()
  int64_t top1_hits() const { return top1_hits_; }  // the likeliest token came

  // Of the reference; with none, 0.
  double reference_nll() const { return reference_nll_; }
  int64_t same_top1() const { return same_top1_; }
  bool has_reference() const { return !kl_.empty(); }

  struct Kl {
    double mean = 0, median = 0, p99 = 0, max = 0;
    int64_t max_at = 0;  // the predicted token it belongs to, from 0
  };
  // Quantiles are the values at rank ceil(q * n), none interpolated.
  Kl kl() const;

 private:
  int64_t n_tokens_ = 0;
  double nll_ = 0, reference_nll_ = 0;
  int64_t top1_hits_ = 0, same_top1_ = 0;
  std::vector<double> kl_;
};

// Called after each chunk with the tokens predicted so far and in all; false stops.
using TextProgress = std::function<bool(int64_t done, int64_t total)>;

// Scores `windows`, each tokens of which the first is given and the others are predicted; windows
// of fewer than two are passed over, and of a longer one than `ctx_tokens` the rest. `reference`
// may be null and otherwise has the same vocabulary. Stopped on request, it returns what was
// scored. Errors: kInvalidArgument when nothing is left to predict or `ctx_tokens` is below 2;
// those of Scorer::advance and TextScore::add.
Result<TextScore> score_windows(Scorer& model, Scorer* reference,
                                std::span<const std::vector<Token>> windows, int64_t ctx_tokens,
                                const TextProgress& progress = {});

// `text`, tokens without a BOS, as windows of `ctx_tokens`, at least 2: each a BOS and the tokens
// that follow the last window.
std::vector<std::vector<Token>> text_windows(std::span<const Token> text, Token bos,
                                             int64_t ctx_tokens);

// Scores `text`, tokens without a BOS, in windows of `ctx_tokens`, at least 2, as score_windows()
// does.
Result<TextScore> score_text(Scorer& model, Scorer* reference, std::span<const Token> text,
                             Token bos, int64_t ctx_tokens, const TextProgress& progress = {});

}  // namespace ds4::eval
