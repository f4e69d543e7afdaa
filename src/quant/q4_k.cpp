#include "quant/q4_k.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "quant/fit.h"
#include "quant/rounding.h"

namespace ds4 {
namespace {

constexpr int kSub = 32;  // values of a sub-block
constexpr int kCodeMax = 15;
constexpr int kScaleMax = 63;

// What the searches found, before packing.
struct Parameters {
  float d = 0;
  float dmin = 0;
  uint8_t scales[kQ4KSubBlocks] = {};
  uint8_t mins[kQ4KSubBlocks] = {};
  uint8_t codes[kQ4KElems] = {};
};

// 6-bit levels of `values` against their maximum; returns the value of one level.
float quantize_to_max(const float* values, uint8_t* levels) {
  const float top = std::max(0.0f, *std::max_element(values, values + kQ4KSubBlocks));
  const float inverse = top > 0 ? static_cast<float>(kScaleMax) / top : 0.0f;
  for (int j = 0; j < kQ4KSubBlocks; ++j) {
    levels[j] = static_cast<uint8_t>(round_even(inverse * values[j], 0, kScaleMax));
  }
  return top / static_cast<float>(kScaleMax);
}

// Scale and minimum of every sub-block.
struct Lines {
  float scales[kQ4KSubBlocks];
  float mins[kQ4KSubBlocks];
};

Lines fit_lines(const float* x, const float* w, const AffineSearch& search, uint8_t* codes) {
  AffineFit fits[kQ4KSubBlocks];
  fit_affine(kQ4KSubBlocks, kSub, x, w, search, fits, codes);
  Lines lines;
  for (int j = 0; j < kQ4KSubBlocks; ++j) {
    lines.scales[j] = fits[j].scale;
    lines.mins[j] = fits[j].min;
  }
  return lines;
}

Parameters fit_plain(const float* x) {
  constexpr AffineSearch kSearch{.code_max = kCodeMax, .start = -1.0f, .step = 0.1f, .n_steps = 20};
  Parameters p;
  float w[kQ4KElems];
  for (int j = 0; j < kQ4KSubBlocks; ++j) {
    const float* xs = x + kSub * j;
    float sum_squares = 0;
    for (int i = 0; i < kSub; ++i) sum_squares += xs[i] * xs[i];
    const float rms = std::sqrt(sum_squares / static_cast<float>(kSub));
    for (int i = 0; i < kSub; ++i) w[kSub * j + i] = rms + std::fabs(xs[i]);
  }
  const Lines lines = fit_lines(x, w, kSearch, p.codes);
  p.d = quantize_to_max(lines.scales, p.scales);
  p.dmin = quantize_to_max(lines.mins, p.mins);
  return p;
}

Parameters fit_weighted(const float* x, const float* importance) {
  constexpr AffineSearch kSearch{
      .code_max = kCodeMax, .start = -0.9f, .step = 0.05f, .n_steps = 36};
  Parameters p;
  float sum_squares = 0;
  for (int i = 0; i < kQ4KElems; ++i) sum_squares += x[i] * x[i];
  const float sigma2 = 2 * sum_squares / static_cast<float>(kQ4KElems);
  float w[kQ4KElems];
  float weights[kQ4KSubBlocks];
  for (int j = 0; j < kQ4KSubBlocks; ++j) {
    weights[j] = 0;
    for (int i = kSub * j; i < kSub * (j + 1); ++i) {
      w[i] = importance[i] * std::sqrt(sigma2 + x[i] * x[i]);
      weights[j] += w[i];
    }
  }
  const Lines lines = fit_lines(x, w, kSearch, p.codes);
  p.d = fit_positive(kQ4KSubBlocks, kScaleMax, lines.scales, weights, p.scales);
  p.dmin = fit_positive(kQ4KSubBlocks, kScaleMax, lines.mins, weights, p.mins);
  return p;
}

void pack_scales(const Parameters& p, BlockQ4K* block) {
  std::memset(block->scales, 0, sizeof(block->scales));
  for (int j = 0; j < kQ4KSubBlocks; ++j) {
    const unsigned s = p.scales[j];
    const unsigned m = p.mins[j];
    if (j < 4) {
      block->scales[j] = static_cast<uint8_t>(s);
      block->scales[j + 4] = static_cast<uint8_t>(m);
    } else {
      block->scales[j + 4] = static_cast<uint8_t>((s & 15) | (m & 15) << 4);
      block->scales[j - 4] = static_cast<uint8_t>(block->scales[j - 4] | (s >> 4) << 6);
      block->scales[j] = static_cast<uint8_t>(block->scales[j] | (m >> 4) << 6);
    }
  }
}

// The stored scales are coarser than the fitted ones, so each code is chosen again against them.
void recompute_codes(const float* x, const BlockQ4K& block, Parameters* p) {
  for (int j = 0; j < kQ4KSubBlocks; ++j) {
    const float scale = f16_to_f32(block.d) * static_cast<float>(p->scales[j]);
    if (scale == 0) continue;
    const float min = f16_to_f32(block.dmin) * static_cast<float>(p->mins[j]);
    for (int i = kSub * j; i < kSub * (j + 1); ++i) {
      p->codes[i] = static_cast<uint8_t>(round_even((x[i] + min) / scale, 0, kCodeMax));
    }
  }
}

}  // namespace

void encode_block(const float* x, const float* importance, BlockQ4K* block) {
  Parameters p = importance == nullptr ? fit_plain(x) : fit_weighted(x, importance);
  block->d = f32_to_f16(p.d);
  block->dmin = f32_to_f16(p.dmin);
  pack_scales(p, block);
  recompute_codes(x, *block, &p);
  for (int g = 0; g < 4; ++g) {
    for (int l = 0; l < 32; ++l) {
      const unsigned low = p.codes[64 * g + l];
      const unsigned high = p.codes[64 * g + 32 + l];
      block->codes[32 * g + l] = static_cast<uint8_t>(low | high << 4);
    }
  }
}

}  // namespace ds4
