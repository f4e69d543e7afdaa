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

// Rounds to a float format of `kMantissaBits` whose smallest normal is 2^kMinExponent, nearest with
// ties to even, for values within its range: adding and subtracting 1.5 * 2^23 grid steps drops the
// bits below a step. The same value as encoding and decoding a code (tested over both formats),
// about ten times as fast because nothing branches.
template <int kMantissaBits, int kMinExponent>
float round_to_grid(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const int32_t exponent = static_cast<int32_t>(bits & 0x7f800000u);
  constexpr int32_t kSmallest = (kMinExponent + 127) << 23;
  const int32_t clamped = exponent > kSmallest ? exponent : kSmallest;
  const uint32_t magic_bits =
      (static_cast<uint32_t>(clamped) + ((23u - kMantissaBits) << 23)) | 1u << 22;
  const float magic = std::bit_cast<float>(magic_bits);
  const float rounded = (value + magic) - magic;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(rounded) | (bits & 0x80000000u));  // keeps -0
}

// Multiplying by 2^-e is dividing by the scale, exactly. The definition's clamp never acts: f32's
// 1/448 and 1/6 lie above the true ones, so a peak past the largest code has already taken the next
// scale.
template <int kBlock, int kMantissaBits, int kMinExponent>
void round_trip_blocks(float* x, int64_t n, int (*scale_exponent)(float)) {
  DS4_CHECK(n >= 0 && n % kBlock == 0);
  for (int64_t b = 0; b < n; b += kBlock) {
    float* block = x + b;
    const float amax = abs_max(block, kBlock);
    if (!(amax <= std::numeric_limits<float>::max())) {
      std::fill_n(block, kBlock, std::numeric_limits<float>::quiet_NaN());
      continue;
    }
    const int e = scale_exponent(amax);
    const float scale = exp2_int(e);
    const float inverse = exp2_int(-e);
    for (int i = 0; i < kBlock; ++i) {
      block[i] = round_to_grid<kMantissaBits, kMinExponent>(block[i] * inverse) * scale;
    }
  }
}

// Butterflies of one stride; a template so that every inner loop has a constant length.
template <int kStride>
void butterflies(float* x) {
  for (int base = 0; base < kHadamardElems; base += 2 * kStride) {
    for (int i = base; i < base + kStride; ++i) {
      const float a = x[i];
      const float b = x[i + kStride];
      x[i] = a + b;
      x[i + kStride] = a - b;
    }
  }
}

}  // namespace

void fp8_round_trip(float* x, int64_t n) {
  round_trip_blocks<kFp8BlockElems, 3, -6>(x, n, fp8_scale_exponent);  // E4M3
}

void bf16_round_trip(float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = bf16_to_f32(f32_to_bf16(x[i]));
}

void hadamard_128(float* x) {
  butterflies<1>(x);
  butterflies<2>(x);
  butterflies<4>(x);
  butterflies<8>(x);
  butterflies<16>(x);
  butterflies<32>(x);
  butterflies<64>(x);
  for (int i = 0; i < kHadamardElems; ++i) x[i] *= 0.08838834764831845f;  // 128^-0.5
}

void fp4_round_trip(float* x, int64_t n) {
  round_trip_blocks<kFp4BlockElems, 1, 0>(x, n, fp4_scale_exponent);  // E2M1
}

void indexer_round_trip(float* x) {
  hadamard_128(x);
  fp4_round_trip(x, kHadamardElems);
}

}  // namespace ds4
