#include "quant/packed_kv.h"

#include <bit>
#include <limits>

#include "base/check.h"
#include "quant/rounding.h"

namespace ds4 {
namespace {

// The code of a value that E4M3 holds exactly. No branch, so a loop over it vectorises: below 2^-6
// the code counts steps of 2^-9, above it is the upper bits of the f32 with the exponent rebiased.
uint8_t exact_e4m3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t small =
      static_cast<uint32_t>(static_cast<int32_t>(std::bit_cast<float>(magnitude) * 512.0f));
  const uint32_t normal = (magnitude >> 20) - (120u << 3);
  const uint32_t code = magnitude < 0x3c800000u ? small : normal;
  return static_cast<uint8_t>(code | (bits >> 24 & 0x80u));
}

}  // namespace

void encode_packed_kv(const float* row, int64_t width, uint8_t* dst) {
  DS4_CHECK(width >= 2 * kPackedKvRope && width % kFp8BlockElems == 0);
  const int64_t codes = width - kPackedKvRope;
  uint8_t* scales = dst + packed_kv_scales(width);
  std::memset(scales, 0, static_cast<size_t>(packed_kv_bytes(width) - packed_kv_scales(width)));
  for (int64_t b = 0; b < codes; b += kFp8BlockElems) {
    const float amax = abs_max(row + b, kFp8BlockElems);
    if (!(amax <= std::numeric_limits<float>::max())) {
      std::memset(dst + b, 0, kFp8BlockElems);
      scales[b / kFp8BlockElems] = 255;
      continue;
    }
    // Rounding may have moved the peak down to a power of two, where the next smaller scale would
    // do; that one holds the values as well, on a finer grid.
    const int e = fp8_scale_exponent(amax);
    const float inverse = exp2_int(-e);
    scales[b / kFp8BlockElems] = static_cast<uint8_t>(e + 127);
    for (int i = 0; i < kFp8BlockElems; ++i) dst[b + i] = exact_e4m3(row[b + i] * inverse);
  }
  for (int64_t i = 0; i < kPackedKvRope; ++i) {
    const uint16_t bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(row[codes + i]) >> 16);
    std::memcpy(dst + codes + 2 * i, &bits, sizeof(bits));
  }
}

}  // namespace ds4
