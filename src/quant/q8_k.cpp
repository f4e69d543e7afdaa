#include "quant/q8_k.h"

#include <cmath>

#include "base/check.h"
#include "quant/rounding.h"

namespace ds4 {
namespace {

// q[i] = rne(x[i] * k) clamped to int8. With a sane k no product leaves +-127.1, so the loop that
// nearly every block takes needs no compare; blocks of subnormals, NaN or infinity take the other.
template <int kElems>
void round_codes(const float* x, float k, int8_t* q) {
  if (std::fabs(k) < 0x1p120f) {
    for (int i = 0; i < kElems; ++i) q[i] = static_cast<int8_t>(round_even_small(x[i] * k));
  } else {
    for (int i = 0; i < kElems; ++i) q[i] = static_cast<int8_t>(round_even(x[i] * k, -128, 127));
  }
}

// The first value whose magnitude equals `peak`; NaN when the peak is NaN.
float first_peak(const float* x, float peak) {
  for (int i = 0; i < kQ8KElems; ++i) {
    if (std::fabs(x[i]) == peak) return x[i];
  }
  return peak;
}

}  // namespace

void encode_block(const float* x, BlockA8* block) {
  const float d = abs_max(x, kA8Elems) / 127.0f;
  const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
  block->d = d;
  round_codes<kA8Elems>(x, inverse, block->q);
}

void encode_block(const float* x, BlockQ8K* block) {
  const float peak = abs_max(x, kQ8KElems);
  if (peak == 0.0f) {
    *block = BlockQ8K{};
    return;
  }
  const float k = -127.0f / first_peak(x, peak);
  block->d = 1.0f / k;
  round_codes<kQ8KElems>(x, k, block->q);
  for (int j = 0; j < kQ8KElems / 16; ++j) {
    int sum = 0;
    for (int i = 0; i < 16; ++i) sum += block->q[16 * j + i];
    block->sums[j] = static_cast<int16_t>(sum);
  }
}

void encode_a8_row(const float* x, int64_t n, BlockA8* blocks) {
  DS4_CHECK(n >= 0 && n % kA8Elems == 0);
  for (int64_t b = 0; b < n / kA8Elems; ++b) encode_block(x + b * kA8Elems, blocks + b);
}

void encode_q8_k_row(const float* x, int64_t n, BlockQ8K* blocks) {
  DS4_CHECK(n >= 0 && n % kQ8KElems == 0);
  for (int64_t b = 0; b < n / kQ8KElems; ++b) encode_block(x + b * kQ8KElems, blocks + b);
}

}  // namespace ds4
