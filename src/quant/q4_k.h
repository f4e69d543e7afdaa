#pragma once
// Q4_K: 256 values in 144 bytes (4.5 bits); eight sub-blocks of 32, each with a 6-bit scale and a
// 6-bit minimum that is subtracted.
//
//   byte 0      2        4               16                                            144
//        | d    | dmin   | scales, mins  | codes: 4 groups of 32 bytes                  |
//        | f16  | f16    | 12 bytes      | group g byte l: value 64g+l, 64g+32+l (high) |
//
//   packed scales, sub-block j     j < 4: s = byte[j] & 63,                m = byte[j+4] & 63
//                                  j >= 4: s = low nibble of byte[j+4] | (byte[j-4] >> 6) << 4
//                                          m = high nibble of byte[j+4] | (byte[j]  >> 6) << 4
//   value = F(d) * s[j] * q - F(dmin) * m[j],  q in 0..15
//
// Source: the Q4_K type of the ggml project; byte map in docs/formats/quant.md.
#include <cstdint>

#include "base/scalar.h"
#include "quant/q8_k.h"

namespace ds4 {

inline constexpr int kQ4KElems = 256;
inline constexpr int kQ4KSubBlocks = 8;

struct BlockQ4K {
  uint16_t d;     // f16, scale of the scales
  uint16_t dmin;  // f16, scale of the minima
  uint8_t scales[12];
  uint8_t codes[kQ4KElems / 2];
};
static_assert(sizeof(BlockQ4K) == 144);

DS4_HOST_DEVICE inline int32_t q4_k_scale(const BlockQ4K& block, int j) {
  const uint8_t* b = block.scales;
  return j < 4 ? b[j] & 63 : (b[j + 4] & 15) | (b[j - 4] >> 6) << 4;
}

DS4_HOST_DEVICE inline int32_t q4_k_min(const BlockQ4K& block, int j) {
  const uint8_t* b = block.scales;
  return j < 4 ? b[j + 4] & 63 : b[j + 4] >> 4 | (b[j] >> 6) << 4;
}

DS4_HOST_DEVICE inline void decode_block(const BlockQ4K& block, float* dst) {
  const float d = f16_to_f32(block.d);
  const float dmin = f16_to_f32(block.dmin);
  for (int j = 0; j < kQ4KSubBlocks; ++j) {
    const uint8_t* codes = block.codes + 32 * (j / 2);
    const int shift = 4 * (j % 2);
    const float scale = d * static_cast<float>(q4_k_scale(block, j));
    const float min = dmin * static_cast<float>(q4_k_min(block, j));
    for (int l = 0; l < 32; ++l) {
      dst[32 * j + l] = scale * static_cast<float>(codes[l] >> shift & 15) - min;
    }
  }
}

// Integer halves of a dot product: scale-weighted products, and min-weighted activation sums.
struct AffineDotSums {
  int32_t scaled = 0;
  int32_t mins = 0;
};

// Worst case of `scaled`: 8 * 63 * 32 * 15 * 128, under 2^25.
DS4_HOST_DEVICE inline AffineDotSums dot_sums(const BlockQ4K& w, const BlockQ8K& a) {
  AffineDotSums sums;
  for (int j = 0; j < kQ4KSubBlocks; ++j) {
    const uint8_t* codes = w.codes + 32 * (j / 2);
    const int shift = 4 * (j % 2);
    int32_t products = 0;
    for (int l = 0; l < 32; ++l) products += (codes[l] >> shift & 15) * a.q[32 * j + l];
    sums.scaled += q4_k_scale(w, j) * products;
    sums.mins += q4_k_min(w, j) * (a.sums[2 * j] + a.sums[2 * j + 1]);
  }
  return sums;
}

DS4_HOST_DEVICE inline float dot_block(const BlockQ4K& w, const BlockQ8K& a) {
  const AffineDotSums sums = dot_sums(w, a);
  return a.d * f16_to_f32(w.d) * static_cast<float>(sums.scaled) -
         a.d * f16_to_f32(w.dmin) * static_cast<float>(sums.mins);
}

// One block from 256 finite values. `importance` [256] weighs the squared errors; with nullptr the
// search weighs them by magnitude instead.
void encode_block(const float* x, const float* importance, BlockQ4K* block);

}  // namespace ds4
