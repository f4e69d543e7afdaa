#pragma once
// The block-scaled matrices of the official checkpoint, decoded one row at a time.
//
//   FP8   codes  [rows, cols]      E4M3, one byte each
//         scales [ceil(rows/128), ceil(cols/128)]   E8M0, one per 128x128 tile
//   FP4   codes  [rows, cols/2]    two E2M1 a byte: value 2j in the low nibble, 2j+1 in the high
//   one
//         scales [rows, cols/32]   E8M0, one per 32 values of a row
//
// The bytes come from a file: a NaN code, a NaN scale (255) or a value that f32 or bf16 cannot hold
// is an error that names row and column; the destination row is then partly written. Callers put
// the tensor's name in front (fail_within). Row numbers and widths are the caller's own and are
// checked. Views do not own the bytes. Thread-safe. Source: docs/formats/quant.md, official
// checkpoints.
#include <cstdint>

#include "base/result.h"
#include "quant/mxfp4.h"

namespace ds4 {

inline constexpr int64_t kHfFp8Tile = 128;
inline constexpr int64_t kHfFp4Group = 32;

struct HfFp8Matrix {
  const uint8_t* codes = nullptr;
  const uint8_t* scales = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;

  int64_t scale_cols() const { return (cols + kHfFp8Tile - 1) / kHfFp8Tile; }
};

struct HfFp4Matrix {
  const uint8_t* codes = nullptr;
  const uint8_t* scales = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;  // values, twice the bytes; a multiple of 32

  int64_t scale_cols() const { return cols / kHfFp4Group; }
};

// Row `row` as f32 [cols]; exact. Errors: kCorrupt.
Result<void> decode_hf_row(const HfFp8Matrix& matrix, int64_t row, float* dst);
Result<void> decode_hf_row(const HfFp4Matrix& matrix, int64_t row, float* dst);

// Row `row` as bf16 [cols], without rounding: an E4M3 value has 4 significant bits and bf16
// holds 8. Errors: kCorrupt; kUnsupported when a value lies below bf16's smallest subnormal grid.
Result<void> hf_row_to_bf16(const HfFp8Matrix& matrix, int64_t row, uint16_t* dst);

// Row `row` as MXFP4 blocks [cols/32]: the same codes and scale bytes with the nibbles dealt anew,
// so no arithmetic and no loss. Errors: kCorrupt for a NaN scale.
Result<void> hf_row_to_mxfp4(const HfFp4Matrix& matrix, int64_t row, BlockMxfp4* dst);

}  // namespace ds4
