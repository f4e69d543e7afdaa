#include "engine/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace ds4 {
namespace {

Result<void> check_range(std::string_view name, float value, float low, float high, bool open_low) {
  if (value >= low && value <= high && !(open_low && value == low)) return {};
  return fail(ErrorCode::kInvalidArgument, fmt::format("{}: expected {}{}, {}], found {}", name,
                                                       open_low ? '(' : '[', low, high, value));
}

// NaN and +infinity mean a broken model or a broken kernel, never a token.
Result<void> check_finite(std::span<const float> logits) {
  bool any_finite = false;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == INFINITY) {
      return fail(ErrorCode::kNonFinite,
                  fmt::format("the model's logits are not finite: token {} has {}", i, logits[i]));
    }
    any_finite |= std::isfinite(logits[i]);
  }
  if (!any_finite)
    return fail(ErrorCode::kNonFinite, "the model's logits are not finite: every token has -inf");
  return {};
}

}  // namespace

Result<void> check_sampler_options(const SamplerOptions& o) {
  DS4_TRY_VOID(check_range("temperature", o.temperature, 0, 2, false));
  DS4_TRY_VOID(check_range("top-p", o.top_p, 0, 1, true));
  DS4_TRY_VOID(check_range("min-p", o.min_p, 0, 1, false));
  if (o.top_k < 0) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("top-k: expected 0 (off) or more, found {}", o.top_k));
  }
  return {};
}

Token argmax(std::span<const float> logits) {
  DS4_CHECK(!logits.empty());
  size_t best = 0;
  for (size_t i = 1; i < logits.size(); ++i) {
    if (logits[i] > logits[best] || std::isnan(logits[best])) best = i;
  }
  return static_cast<Token>(best);
}

Sampler::Sampler(const SamplerOptions& options, int64_t vocab_size)
    : options_(options), random_(options.seed) {
  candidates_.reserve(static_cast<size_t>(vocab_size));
  probabilities_.reserve(static_cast<size_t>(vocab_size));
}

Result<Token> Sampler::sample(std::span<const float> logits) {
  DS4_TRY_VOID(check_finite(logits));
  if (options_.temperature == 0.0f) return argmax(logits);

  candidates_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    candidates_.push_back({logits[i], static_cast<Token>(i)});
  }
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  });

  const double best = candidates_.front().logit;
  probabilities_.clear();
  double total = 0;
  for (const Candidate& c : candidates_) {
    probabilities_.push_back(std::exp((c.logit - best) / options_.temperature));
    total += probabilities_.back();
  }

  size_t kept = candidates_.size();
  if (options_.top_k > 0) kept = std::min(kept, static_cast<size_t>(options_.top_k));
  double mass = 0;
  for (size_t i = 0; i < kept; ++i) {
    mass += probabilities_[i];
    // Top-p is a share of the whole distribution; min-p, of the best probability, which is 1 here.
    const bool reached = mass >= options_.top_p * total;
    const bool next_is_small = i + 1 < kept && probabilities_[i + 1] < options_.min_p;
    if (reached || next_is_small) kept = i + 1;
  }

  // 53 random bits as a number in [0, 1): std distributions differ between libraries.
  double draw = static_cast<double>(random_() >> 11) * 0x1p-53 * mass;
  for (size_t i = 0; i + 1 < kept; ++i) {
    draw -= probabilities_[i];
    if (draw < 0) return candidates_[i].token;
  }
  return candidates_[kept - 1].token;
}

}  // namespace ds4
