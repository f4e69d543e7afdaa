#include "quant/q2_k.h"

#include <algorithm>
#include <cmath>

#include "quant/fit.h"
#include "quant/rounding.h"

namespace ds4 {
namespace {

constexpr int kSub = 16;  // values of a sub-block
constexpr int kCodeMax = 3;
constexpr int kScaleMax = 15;

// What the searches found, before packing.
struct Parameters {
  float d = 0;
  float dmin = 0;
  uint8_t scales[kQ2KSubBlocks] = {};
  uint8_t mins[kQ2KSubBlocks] = {};
  uint8_t codes[kQ2KElems] = {};
};

// 4-bit levels of `values` against their maximum; returns the value of one level.
float quantize_to_max(const float* values, uint8_t* levels) {
  const float top = std::max(0.0f, *std::max_element(values, values + kQ2KSubBlocks));
  const float inverse = top > 0 ? static_cast<float>(kScaleMax) / top : 0.0f;
  for (int j = 0; j < kQ2KSubBlocks; ++j) {
    levels[j] = static_cast<uint8_t>(round_even(inverse * values[j], 0, kScaleMax));
  }
  return top / static_cast<float>(kScaleMax);
}

// Scale and minimum of every sub-block.
struct Lines {
  float scales[kQ2KSubBlocks];
  float mins[kQ2KSubBlocks];
};

Lines fit_lines(const float* x, const float* w, const AffineSearch& search, uint8_t* codes) {
  AffineFit fits[kQ2KSubBlocks];
  fit_affine(kQ2KSubBlocks, kSub, x, w, search, fits, codes);
  Lines lines;
  for (int j = 0; j < kQ2KSubBlocks; ++j) {
    lines.scales[j] = fits[j].scale;
    lines.mins[j] = fits[j].min;
  }
  return lines;
}

Parameters fit_plain(const float* x) {
  constexpr AffineSearch kSearch{
      .code_max = kCodeMax, .start = -0.5f, .step = 0.1f, .n_steps = 15, .absolute = true};
  Parameters p;
  float w[kQ2KElems];
  for (int i = 0; i < kQ2KElems; ++i) w[i] = std::fabs(x[i]);
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
  for (int i = 0; i < kQ2KElems; ++i) sum_squares += x[i] * x[i];
  const float sigma2 = sum_squares / static_cast<float>(kQ2KElems);  // Q4_K doubles it, Q2_K not
  float w[kQ2KElems];
  float weights[kQ2KSubBlocks];
  for (int j = 0; j < kQ2KSubBlocks; ++j) {
    weights[j] = 0;
    for (int i = kSub * j; i < kSub * (j + 1); ++i) {
      w[i] = importance[i] * std::sqrt(sigma2 + x[i] * x[i]);
      weights[j] += w[i];
    }
  }
  const Lines lines = fit_lines(x, w, kSearch, p.codes);
  p.d = fit_positive(kQ2KSubBlocks, kScaleMax, lines.scales, weights, p.scales);
  p.dmin = fit_positive(kQ2KSubBlocks, kScaleMax, lines.mins, weights, p.mins);
  return p;
}

// The stored scales are coarser than the fitted ones, so each code is chosen again against them.
void recompute_codes(const float* x, const BlockQ2K& block, Parameters* p) {
  for (int j = 0; j < kQ2KSubBlocks; ++j) {
    const float scale = f16_to_f32(block.d) * static_cast<float>(p->scales[j]);
    if (scale == 0) continue;
    const float min = f16_to_f32(block.dmin) * static_cast<float>(p->mins[j]);
    for (int i = kSub * j; i < kSub * (j + 1); ++i) {
      p->codes[i] = static_cast<uint8_t>(round_even((x[i] + min) / scale, 0, kCodeMax));
    }
  }
}

}  // namespace

void encode_block(const float* x, const float* importance, BlockQ2K* block) {
  Parameters p = importance == nullptr ? fit_plain(x) : fit_weighted(x, importance);
  block->d = f32_to_f16(p.d);
  block->dmin = f32_to_f16(p.dmin);
  for (int j = 0; j < kQ2KSubBlocks; ++j) {
    block->sc[j] = static_cast<uint8_t>(p.scales[j] | p.mins[j] << 4);
  }
  recompute_codes(x, *block, &p);
  for (int h = 0; h < 2; ++h) {
    for (int l = 0; l < 32; ++l) {
      const uint8_t* q = p.codes + 128 * h + l;
      block->codes[32 * h + l] = static_cast<uint8_t>(q[0] | q[32] << 2 | q[64] << 4 | q[96] << 6);
    }
  }
}

}  // namespace ds4
