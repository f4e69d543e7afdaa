#include "quant/mxfp4.h"

#include <algorithm>
#include <cmath>

#include "quant/rounding.h"

namespace ds4 {
namespace {

// floor(log2(peak)) - 2, biased: the largest E2M1 magnitude, 6, lies in the binade of 4 = 2^2.
// std::ilogb is exact for subnormals too; the lowest exponents clamp to the smallest scale.
uint8_t shared_exponent(float peak) {
  if (peak == 0.0f) return 0;
  return static_cast<uint8_t>(std::clamp(std::ilogb(peak) - 2 + 127, 0, 254));
}

uint8_t nearest_code(float x, float scale) {
  uint8_t best = 0;
  float best_error = std::fabs(e2m1_to_f32(0) * scale - x);
  for (uint8_t c = 1; c < 16; ++c) {
    const float error = std::fabs(e2m1_to_f32(c) * scale - x);
    if (error < best_error) {
      best_error = error;
      best = c;
    }
  }
  return best;
}

}  // namespace

void encode_block(const float* x, BlockMxfp4* block) {
  block->e = shared_exponent(abs_max(x, kMxfp4Elems));
  const float scale = e8m0_to_f32(block->e);
  for (int j = 0; j < kMxfp4Elems / 2; ++j) {
    const unsigned low = nearest_code(x[j], scale);
    const unsigned high = nearest_code(x[j + kMxfp4Elems / 2], scale);
    block->codes[j] = static_cast<uint8_t>(low | high << 4);
  }
}

}  // namespace ds4
