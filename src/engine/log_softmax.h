#pragma once
// Log-probabilities from logits, in f64 over the whole vocabulary: what dumps, traces and scores
// report. Values that are not finite give NaN, never a number that looks sound.
#include <algorithm>
#include <cmath>
#include <span>

namespace ds4 {

class LogSoftmax {
 public:
  // `logits` must not be empty; they are not kept.
  explicit LogSoftmax(std::span<const float> logits)
      : max_(*std::max_element(logits.begin(), logits.end())) {
    double sum = 0;
    for (const float logit : logits) sum += std::exp(double{logit} - max_);
    log_sum_ = std::log(sum);
  }

  double of(float logit) const { return double{logit} - max_ - log_sum_; }

 private:
  double max_;
  double log_sum_;
};

}  // namespace ds4
