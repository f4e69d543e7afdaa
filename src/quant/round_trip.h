#pragma once
// Rounding that belongs to the network: the model was trained with its KV rows held in FP8 and its
// indexer rows in FP4, so an engine that keeps them in f32 still sends them through these formats.
// Every function works in place on f32 and leaves values that the narrow format holds exactly; a
// second call changes nothing.
//
//   KV row, 512 values        |<---- 448: FP8 E4M3, one scale per 64 ---->|<- 64 RoPE: bf16 ->|
//   indexer row, 128 values   Hadamard-128, then FP4 E2M1, one scale per 32
//
// A block that holds a NaN or an infinity becomes all NaN: the damage must reach the logits check.
// Source: DeepSeek-V4 reference inference, act_quant and fp4_act_quant; docs/formats/quant.md.
#include <cmath>
#include <cstdint>

#include "base/scalar.h"

namespace ds4 {

inline constexpr int kFp8BlockElems = 64;   // of a KV row
inline constexpr int kFp4BlockElems = 32;   // of an indexer row
inline constexpr int kHadamardElems = 128;  // width of an indexer row

// Exponent e of the block scale 2^e for a block whose largest magnitude is the finite `amax`: the
// smallest with 2^e >= amax/448. Taken from the bits of the f32 product: log2f is off by one there.
DS4_HOST_DEVICE inline int fp8_scale_exponent(float amax) {
  const float floored = amax > 1e-4f ? amax : 1e-4f;
  return ceil_log2(floored * (1.0f / 448.0f));
}

// The same for FP4: smallest e with 2^e >= amax/6; the floor keeps the scale a normal float.
DS4_HOST_DEVICE inline int fp4_scale_exponent(float amax) {
  const float floored = amax > 6 * 0x1p-126f ? amax : 6 * 0x1p-126f;
  return ceil_log2(floored * (1.0f / 6.0f));
}

// E4M3 round trip in blocks of 64; n is a multiple of 64 (checked): 448 for a KV row.
void fp8_round_trip(float* x, int64_t n);

// Each value to bf16 and back, nearest with ties to even.
void bf16_round_trip(float* x, int64_t n);

// y[i] = 128^-0.5 * sum_j (-1)^popcount(i & j) x[j] over the 128 values of a row; its own inverse.
// Butterflies with strides 1, 2, ..., 64, the factor last: the order fixes the bits.
void hadamard_128(float* x);

// E2M1 round trip in blocks of 32; n is a multiple of 32 (checked).
void fp4_round_trip(float* x, int64_t n);

// What an indexer query head or key row of 128 values goes through: Hadamard, then FP4.
void indexer_round_trip(float* x);

}  // namespace ds4
