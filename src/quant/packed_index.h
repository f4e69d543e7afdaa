#pragma once
// An indexer row as the official profile rounds it (Hadamard, FP4 in blocks of 32; round_trip.h),
// kept in the bits it needs: 128 values in 68 bytes instead of 512, without loss.
//
//   byte 0          16         32         48         64               68
//        | block 0  | block 1  | block 2  | block 3  | 4 scales, E8M0 |
//        low nibble of byte j of a block: value j; high nibble: value j + 16, for j = 0 .. 15
//
// Value = E2M1(code) * 2^(scale - 127). A block with a NaN is NaN throughout and is kept as scale
// 255 over zero codes. The nibble order is MXFP4's: one load and one shift give all low and all
// high halves of the row. Rows start at multiples of 4 bytes.
#include <cstdint>

#include "base/scalar.h"
#include "quant/round_trip.h"

namespace ds4 {

inline constexpr int kPackedIndexElems = kHadamardElems;
inline constexpr int kPackedIndexBlocks = kPackedIndexElems / kFp4BlockElems;

struct PackedIndexRow {
  uint8_t codes[kPackedIndexElems / 2];
  uint8_t scales[kPackedIndexBlocks];
};
static_assert(sizeof(PackedIndexRow) == 68);

DS4_HOST_DEVICE inline void decode_packed_index(const PackedIndexRow& row, float* dst) {
  constexpr int kHalf = kFp4BlockElems / 2;
  for (int b = 0; b < kPackedIndexBlocks; ++b) {
    const float scale = e8m0_to_f32(row.scales[b]);
    for (int j = 0; j < kHalf; ++j) {
      const uint8_t pair = row.codes[b * kHalf + j];
      dst[b * kFp4BlockElems + j] = e2m1_to_f32(pair & 15u) * scale;
      dst[b * kFp4BlockElems + j + kHalf] = e2m1_to_f32(pair >> 4) * scale;
    }
  }
}

// Packs a row [128] that has been through fp4_round_trip; decoding gives back its bits, NaN blocks
// as the quiet NaN.
void encode_packed_index(const float* row, PackedIndexRow* dst);

}  // namespace ds4
