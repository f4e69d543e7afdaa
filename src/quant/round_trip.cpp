#include "quant/round_trip.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"
#include "quant/rounding.h"

namespace ds4 {
namespace {

// The scale exponents above are only right if the compiler's 1/448 and 1/6 are the f32 neighbours
// that the reference multiplies by.
static_assert(std::bit_cast<uint32_t>(1.0f / 448.0f) == 0x3b124925u);
static_assert(std::bit_cast<uint32_t>(1.0f / 6.0f) == 0x3e2aaaabu);

// Multiplying by 2^-e is dividing by the scale, exactly. Rounding to the narrow code clamps.
template <int kBlock, typename Exponent, typename Round>
void round_trip_blocks(float* x, int64_t n, Exponent exponent, Round round) {
  DS4_CHECK(n >= 0 && n % kBlock == 0);
  for (int64_t b = 0; b < n; b += kBlock) {
    float* block = x + b;
    const float amax = abs_max(block, kBlock);
    if (!(amax <= std::numeric_limits<float>::max())) {
      std::fill_n(block, kBlock, std::numeric_limits<float>::quiet_NaN());
      continue;
    }
    const int e = exponent(amax);
    const float scale = exp2_int(e);
    const float inverse = exp2_int(-e);
    for (int i = 0; i < kBlock; ++i) block[i] = round(block[i] * inverse) * scale;
  }
}

}  // namespace

void fp8_round_trip(float* x, int64_t n) {
  round_trip_blocks<kFp8BlockElems>(x, n, fp8_scale_exponent,
                                    [](float v) { return e4m3_to_f32(f32_to_e4m3(v)); });
}

void bf16_round_trip(float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = bf16_to_f32(f32_to_bf16(x[i]));
}

void hadamard_128(float* x) {
  for (int stride = 1; stride < kHadamardElems; stride *= 2) {
    for (int base = 0; base < kHadamardElems; base += 2 * stride) {
      for (int i = base; i < base + stride; ++i) {
        const float a = x[i];
        const float b = x[i + stride];
        x[i] = a + b;
        x[i + stride] = a - b;
      }
    }
  }
  for (int i = 0; i < kHadamardElems; ++i) x[i] *= 0.08838834764831845f;  // 128^-0.5
}

void fp4_round_trip(float* x, int64_t n) {
  round_trip_blocks<kFp4BlockElems>(x, n, fp4_scale_exponent,
                                    [](float v) { return e2m1_to_f32(f32_to_e2m1(v)); });
}

void indexer_round_trip(float* x) {
  hadamard_128(x);
  fp4_round_trip(x, kHadamardElems);
}

}  // namespace ds4
