#pragma once
// MXFP4: 32 values in 17 bytes (4.25 bits), the OCP microscaling form of FP4: the routed experts of
// the official checkpoint fit it without loss.
//
//   byte 0      1                                             17
//        | e    | low nibble: value j, high nibble: value j+16 |    value = E2M1(code) * 2^(e-127)
//        | E8M0 | for j = 0..15                                |
//
// The official files hold values 2j and 2j+1 in one byte instead: see hf_codecs.h for the
// repacking. e = 255 stands for NaN; every value of such a block decodes to NaN, and the converter
// refuses it. Source: OCP Microscaling Formats v1.0; nibble order of the ggml project's MXFP4 type.
#include <cstdint>

#include "base/scalar.h"
#include "quant/q8_k.h"

namespace ds4 {

inline constexpr int kMxfp4Elems = 32;

struct BlockMxfp4 {
  uint8_t e;  // E8M0
  uint8_t codes[kMxfp4Elems / 2];
};
static_assert(sizeof(BlockMxfp4) == 17);

DS4_HOST_DEVICE inline void decode_block(const BlockMxfp4& block, float* dst) {
  const float scale = e8m0_to_f32(block.e);
  for (int j = 0; j < kMxfp4Elems / 2; ++j) {
    dst[j] = e2m1_to_f32(block.codes[j] & 15u) * scale;
    dst[j + kMxfp4Elems / 2] = e2m1_to_f32(block.codes[j] >> 4) * scale;
  }
}

// Twice the value of an E2M1 code: an integer, so that the dot product stays in integers.
DS4_HOST_DEVICE inline int32_t e2m1_doubled(uint32_t code) {
  const int32_t c = static_cast<int32_t>(code & 7u);
  // 0 1 2 3 4 6 8 12: the code itself up to 4, then mantissa 2 or 3 shifted by the exponent.
  const int32_t magnitude = c < 4 ? c : (2 + (c & 1)) << ((c >> 1) - 1);
  return (code & 8u) != 0 ? -magnitude : magnitude;
}

// Sum of (doubled code * activation code) over the block; at most 32 * 12 * 128.
DS4_HOST_DEVICE inline int32_t dot_sum(const BlockMxfp4& w, const BlockA8& a) {
  int32_t sum = 0;
  for (int j = 0; j < kMxfp4Elems / 2; ++j) {
    sum += e2m1_doubled(w.codes[j] & 15u) * a.q[j];
    sum += e2m1_doubled(w.codes[j] >> 4) * a.q[j + kMxfp4Elems / 2];
  }
  return sum;
}

// The doubling is taken back in the scale: 2^(e-128), exact for every e.
DS4_HOST_DEVICE inline float dot_block(const BlockMxfp4& w, const BlockA8& a) {
  return e8m0_to_f32(w.e) * 0.5f * a.d * static_cast<float>(dot_sum(w, a));
}

// One block from 32 finite values: exponent of the peak minus 2, then the nearest code (the first
// of two equally near ones). The official checkpoint needs no encoder; this serves float sources.
void encode_block(const float* x, BlockMxfp4* block);

}  // namespace ds4
