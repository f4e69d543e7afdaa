#pragma once
// The two int8 forms of an activation row. Weights are multiplied with integers: an A8 block meets
// Q8_0 and MXFP4 weights, a Q8_K record meets the 256-value formats. Neither is ever written to
// disk.
//
//   A8, 32 values                     Q8_K, 256 values
//   +------+------------------+       +------+--------------------+----------------------+
//   | d    | q[0..31]         |       | d    | q[0..255]          | sums[0..15]          |
//   | f32  | int8             |       | f32  | int8               | int16, 16 values each|
//   +------+------------------+       +------+--------------------+----------------------+
//   0      4                 36       0      4                    260                  292
//
// A8:   d = max|x| / 127,  q = rne(x * (1/d)).
// Q8_K: d = 1 / (-127 / v), v the first value of largest magnitude, so the peak always becomes -127
//       and d has the sign opposite to v. The group sums serve the subtracted minimum of Q4_K and
//       Q2_K.
//
// A NaN or an infinity in a block makes its dot products NaN (d is NaN or infinite): a broken row
// must reach the logits check, not vanish in a code. Source: the Q8_K record of the ggml project;
// byte map in docs/formats/quant.md.
#include <cstdint>

#include "base/scalar.h"

namespace ds4 {

inline constexpr int kA8Elems = 32;
inline constexpr int kQ8KElems = 256;

struct BlockA8 {
  float d;
  int8_t q[kA8Elems];
};
static_assert(sizeof(BlockA8) == 36);

struct BlockQ8K {
  float d;
  int8_t q[kQ8KElems];
  int16_t sums[kQ8KElems / 16];
};
static_assert(sizeof(BlockQ8K) == 292);

DS4_HOST_DEVICE inline void decode_block(const BlockA8& block, float* dst) {
  for (int i = 0; i < kA8Elems; ++i) dst[i] = block.d * static_cast<float>(block.q[i]);
}

DS4_HOST_DEVICE inline void decode_block(const BlockQ8K& block, float* dst) {
  for (int i = 0; i < kQ8KElems; ++i) dst[i] = block.d * static_cast<float>(block.q[i]);
}

// One block from 32 or 256 values.
void encode_block(const float* x, BlockA8* block);
void encode_block(const float* x, BlockQ8K* block);

// A row of n values, n a multiple of 32 or 256 (checked), into n/32 or n/256 blocks.
void encode_a8_row(const float* x, int64_t n, BlockA8* blocks);
void encode_q8_k_row(const float* x, int64_t n, BlockQ8K* blocks);

}  // namespace ds4
