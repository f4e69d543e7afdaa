#pragma once
// Q2_K: 256 values in 84 bytes (2.625 bits); sixteen sub-blocks of 16, each with a 4-bit scale and
// a 4-bit minimum that is subtracted. The form of the routed experts' down projections.
//
//   byte 0                 16                                                  80     82     84
//        | sc[0..15]       | codes: half h byte l holds 4 values, 2 bits each  | d    | dmin |
//        | scale low       | 128h + l, 128h+32 + l, 128h+64 + l, 128h+96 + l   | f16  | f16  |
//        | min high nibble | in bits 0-1, 2-3, 4-5, 6-7; l = 0..31             |      |      |
//
//   value i = F(d) * (sc[i/16] & 15) * q - F(dmin) * (sc[i/16] >> 4),  q in 0..3
//
// Unlike Q4_K the scales come first and the f16 pair last.
// Source: the Q2_K type of the ggml project; byte map in docs/formats/quant.md.
#include <cstdint>

#include "base/scalar.h"
#include "quant/q4_k.h"
#include "quant/q8_k.h"

namespace ds4 {

inline constexpr int kQ2KElems = 256;
inline constexpr int kQ2KSubBlocks = 16;

struct BlockQ2K {
  uint8_t sc[kQ2KSubBlocks];  // scale in the low nibble, min in the high one
  uint8_t codes[kQ2KElems / 4];
  uint16_t d;     // f16
  uint16_t dmin;  // f16
};
static_assert(sizeof(BlockQ2K) == 84);

DS4_HOST_DEVICE inline void decode_block(const BlockQ2K& block, float* dst) {
  const float d = f16_to_f32(block.d);
  const float dmin = f16_to_f32(block.dmin);
  for (int j = 0; j < kQ2KSubBlocks; ++j) {
    // Sub-block j: half j/8, bit pair (j/2)%4, and the left or right 16 of its 32 bytes.
    const uint8_t* codes = block.codes + 32 * (j / 8) + 16 * (j % 2);
    const int shift = 2 * (j / 2 % 4);
    const float scale = d * static_cast<float>(block.sc[j] & 15);
    const float min = dmin * static_cast<float>(block.sc[j] >> 4);
    for (int l = 0; l < 16; ++l) {
      dst[16 * j + l] = scale * static_cast<float>(codes[l] >> shift & 3) - min;
    }
  }
}

// Worst case of `scaled`: 16 * 15 * 16 * 3 * 128, under 2^21.
DS4_HOST_DEVICE inline AffineDotSums dot_sums(const BlockQ2K& w, const BlockQ8K& a) {
  AffineDotSums sums;
  for (int j = 0; j < kQ2KSubBlocks; ++j) {
    const uint8_t* codes = w.codes + 32 * (j / 8) + 16 * (j % 2);
    const int shift = 2 * (j / 2 % 4);
    int32_t products = 0;
    for (int l = 0; l < 16; ++l) products += (codes[l] >> shift & 3) * a.q[16 * j + l];
    sums.scaled += (w.sc[j] & 15) * products;
    sums.mins += (w.sc[j] >> 4) * a.sums[j];
  }
  return sums;
}

DS4_HOST_DEVICE inline float dot_block(const BlockQ2K& w, const BlockQ8K& a) {
  const AffineDotSums sums = dot_sums(w, a);
  return a.d * f16_to_f32(w.d) * static_cast<float>(sums.scaled) -
         a.d * f16_to_f32(w.dmin) * static_cast<float>(sums.mins);
}

// One block from 256 finite values. `importance` [256] weighs the squared errors; with nullptr the
// search minimises absolute errors weighted by magnitude.
void encode_block(const float* x, const float* importance, BlockQ2K* block);

}  // namespace ds4
