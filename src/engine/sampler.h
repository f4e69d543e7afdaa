#pragma once
// Chooses the next token from logits.
//
// Temperature 0 takes the largest logit, the lowest id among equals. Otherwise, in this order:
// softmax(logits / temperature), top-k, top-p (the smallest set of most likely tokens that reaches
// the mass, at least one), min-p (drops what is below min_p times the best), renormalise, draw. The
// same seed and logits give the same tokens on every machine.
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "base/result.h"
#include "tokenizer/token.h"

namespace ds4 {

struct SamplerOptions {
  float temperature = 1.0f;  // 0 .. 2; 0 is greedy
  int64_t top_k = 0;         // 0: off
  float top_p = 1.0f;        // (0, 1]
  float min_p = 0.05f;       // [0, 1]
  uint64_t seed = 0;
};

// Errors: kInvalidArgument naming the option, its range and the value found.
Result<void> check_sampler_options(const SamplerOptions& options);

// The largest logit; the lowest id among equals. NaN never wins. `logits` must not be empty.
Token argmax(std::span<const float> logits);

// Single-thread. Allocates at construction only.
class Sampler {
 public:
  // `options` must have passed check_sampler_options().
  Sampler(const SamplerOptions& options, int64_t vocab_size);

  // Errors: kNonFinite when a logit is NaN or +infinity, or none is finite; -infinity alone means
  // "never".
  Result<Token> sample(std::span<const float> logits);

 private:
  struct Candidate {
    float logit;
    Token token;
  };

  SamplerOptions options_;
  std::mt19937_64 random_;
  std::vector<Candidate> candidates_;
  std::vector<double> probabilities_;
};

}  // namespace ds4
