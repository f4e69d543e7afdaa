#include "quant/packed_index.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "quant/rounding.h"

namespace ds4 {
namespace {

// The code of a value that E2M1 holds exactly: how many of the magnitudes 0.5 .. 6 it reaches.
uint8_t exact_e2m1(float value) {
  const float a = std::fabs(value);
  const int code = (a >= 0.5f) + (a >= 1.0f) + (a >= 1.5f) + (a >= 2.0f) + (a >= 3.0f) +
                   (a >= 4.0f) + (a >= 6.0f);
  return static_cast<uint8_t>(code | static_cast<int>(std::bit_cast<uint32_t>(value) >> 28 & 8u));
}

}  // namespace

void encode_packed_index(const float* row, PackedIndexRow* dst) {
  constexpr int kHalf = kFp4BlockElems / 2;
  for (int b = 0; b < kPackedIndexBlocks; ++b) {
    const float* block = row + b * kFp4BlockElems;
    uint8_t* codes = dst->codes + b * kHalf;
    const float amax = abs_max(block, kFp4BlockElems);
    if (!(amax <= std::numeric_limits<float>::max())) {
      std::memset(codes, 0, kHalf);
      dst->scales[b] = 255;
      continue;
    }
    const int e = fp4_scale_exponent(amax);  // may be one less than the one rounded with: finer
    const float inverse = exp2_int(-e);
    dst->scales[b] = static_cast<uint8_t>(e + 127);
    for (int j = 0; j < kHalf; ++j) {
      const uint8_t low = exact_e2m1(block[j] * inverse);
      const uint8_t high = exact_e2m1(block[j + kHalf] * inverse);
      codes[j] = static_cast<uint8_t>(low | high << 4);
    }
  }
}

}  // namespace ds4
