#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ds4 {
namespace {

// The pair index at which a rotation makes `turns` turns over the original context.
double correction_dim(const ModelConfig& c, double turns) {
  const double base = c.compress_rope_base;
  return static_cast<double>(c.rope_head_dim) *
         std::log(static_cast<double>(c.yarn_original_ctx) / (turns * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(base));
}

}  // namespace

std::vector<float> rope_frequencies(const ModelConfig& config, bool compressed) {
  const double base = compressed ? config.compress_rope_base : config.rope_base;
  const int64_t n_pairs = config.rope_head_dim / 2;
  std::vector<float> frequencies;
  for (int64_t i = 0; i < n_pairs; ++i) {
    const double exponent =
        2.0 * static_cast<double>(i) / static_cast<double>(config.rope_head_dim);
    // The f64 power is within an ulp of f64, so its rounding to f32 is the correct one.
    const auto power = static_cast<float>(std::pow(base, exponent));
    frequencies.push_back(1.0f / power);
  }
  if (!compressed) return frequencies;

  const auto last = static_cast<double>(config.rope_head_dim - 1);
  const auto low =
      static_cast<float>(std::max(0.0, std::floor(correction_dim(config, config.yarn_beta_fast))));
  auto high =
      static_cast<float>(std::min(last, std::ceil(correction_dim(config, config.yarn_beta_slow))));
  // Only in small test shapes: both corrections fall on one pair, and the ramp becomes a step.
  if (high <= low) high = low + 0.001f;
  for (int64_t i = 0; i < n_pairs; ++i) {
    float& f = frequencies[static_cast<size_t>(i)];
    // 0 keeps the frequency, 1 divides it by the factor.
    const float ramp = std::clamp((static_cast<float>(i) - low) / (high - low), 0.0f, 1.0f);
    const float kept = f * (1.0f - ramp);
    const float scaled = (f / config.yarn_factor) * ramp;
    f = kept + scaled;
  }
  return frequencies;
}

}  // namespace ds4
