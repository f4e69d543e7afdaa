#pragma once
// A KV row as the official profile rounds it (round_trip.h), kept in the bits it needs: 512 values
// in 584 bytes instead of 2048, without loss.
//
//   byte 0                      448                      576           583 584
//        | 448 FP8 E4M3 codes   | 64 bf16, the RoPE      | 7 scales    | 0 |
//        | of values 0 .. 447   | channels 448 .. 511    | E8M0        |   |
//
// Value i < 448 is E4M3(code i) * 2^(scale[i / 64] - 127). Other widths (multiples of 64, at least
// 128) have width - 64 codes, and zeros up to the next multiple of 8 bytes. A block with a NaN is
// NaN throughout and is kept as scale 255 over zero codes; codes 0x7f and 0xff (NaN) do not occur.
// Rows start at multiples of 8 bytes. Scales come last: a reader that decodes blocks in order finds
// them in the line that it fetched for the bf16 part.
#include <cstdint>
#include <cstring>

#include "base/scalar.h"
#include "quant/round_trip.h"

namespace ds4 {

inline constexpr int64_t kPackedKvRope = 64;  // channels in bf16

constexpr int64_t packed_kv_bytes(int64_t width) {
  const int64_t codes = width - kPackedKvRope;
  return (codes + 2 * kPackedKvRope + codes / kFp8BlockElems + 7) / 8 * 8;
}
static_assert(packed_kv_bytes(512) == 584);

// Where the scales of a row begin.
constexpr int64_t packed_kv_scales(int64_t width) { return width + kPackedKvRope; }

DS4_HOST_DEVICE inline void decode_packed_kv(const uint8_t* row, float* dst, int64_t width) {
  const int64_t codes = width - kPackedKvRope;
  const uint8_t* scales = row + packed_kv_scales(width);
  for (int64_t i = 0; i < codes; ++i) {
    dst[i] = e4m3_to_f32(row[i]) * e8m0_to_f32(scales[i / kFp8BlockElems]);
  }
  for (int64_t i = 0; i < kPackedKvRope; ++i) {
    uint16_t bits;
    memcpy(&bits, row + codes + 2 * i, sizeof(bits));
    dst[codes + i] = bf16_to_f32(bits);
  }
}

// Packs a row that has been through fp8_round_trip (all but the last 64 values) and bf16_round_trip
// (those); decoding gives back its bits, NaN blocks as the quiet NaN.
void encode_packed_kv(const float* row, int64_t width, uint8_t* dst);

}  // namespace ds4
