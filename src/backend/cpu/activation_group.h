#pragma once
// Activations as the integer kernels read them.
#include <cstdint>

namespace ds4::cpu {

inline constexpr int64_t kActivationGroupElems = 256;

// 256 activations of a row as int8, in either form: one record, so that one loop multiplies both.
//
//   0                    256          288           320              352             368
//   | q[0..255] int8     | d[8] f32   | sums[8] i32 | pairs16 [16] i16 | pairs32 [8] i16 | 0 ..
//
//   A8      d[b]: scale of block b (32 values). A row that ends earlier is filled up with zeros.
//   Q8_K    d[0]: scale of all 256
//   sums[b]           sum of q over 32 values
//   pairs16, pairs32  sums over 16 and 32 values in the order 0 2 1 3, 4 6 5 7, ...: pairs as the
//   minima
//                     of Q2_K and Q4_K come out of their bytes
struct alignas(64) ActivationGroup {
  int8_t q[kActivationGroupElems];
  float d[8];
  int32_t sums[8];
  int16_t pairs16[16];
  int16_t pairs32[8];
};
static_assert(sizeof(ActivationGroup) == 384);

}  // namespace ds4::cpu
