#pragma once
// Q8_0: 32 values in 34 bytes (8.5 bits), for attention projections, the shared expert and the
// head.
//
//   byte 0      2                                 34
//        | d    | q[0] q[1] ...             q[31] |       value i = F(d) * q[i]
//        | f16  | int8                            |
//
// The encoder divides by the unrounded max|x|/127 while the decoder multiplies by its f16 rounding;
// keeping that asymmetry is what makes files byte-equal to the reference quantizer's.
// Source: the Q8_0 type of the ggml project; byte map in docs/formats/quant.md.
#include <cstdint>

#include "base/scalar.h"
#include "quant/q8_k.h"

namespace ds4 {

inline constexpr int kQ8_0Elems = 32;

struct BlockQ8_0 {
  uint16_t d;  // f16
  int8_t q[kQ8_0Elems];
};
static_assert(sizeof(BlockQ8_0) == 34);

DS4_HOST_DEVICE inline void decode_block(const BlockQ8_0& block, float* dst) {
  const float d = f16_to_f32(block.d);
  for (int i = 0; i < kQ8_0Elems; ++i) dst[i] = d * static_cast<float>(block.q[i]);
}

// Sum of the 32 integer products; at most 32 * 128 * 128.
DS4_HOST_DEVICE inline int32_t dot_sum(const BlockQ8_0& w, const BlockA8& a) {
  int32_t sum = 0;
  for (int i = 0; i < kQ8_0Elems; ++i) sum += w.q[i] * a.q[i];
  return sum;
}

DS4_HOST_DEVICE inline float dot_block(const BlockQ8_0& w, const BlockA8& a) {
  return f16_to_f32(w.d) * a.d * static_cast<float>(dot_sum(w, a));
}

// One block from 32 finite values. A peak above 127 * 65504 overflows the f16 scale to infinity.
void encode_block(const float* x, BlockQ8_0* block);

}  // namespace ds4
