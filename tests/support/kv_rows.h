#pragma once
// Rows of the KV cache in any format, as values and back.
#include <cstdint>
#include <cstring>
#include <vector>

#include "ops/kv_view.h"
#include "quant/packed_index.h"
#include "quant/packed_kv.h"

namespace ds4::test {

// A stored row as values.
inline std::vector<float> row_values(const std::byte* row, RowFormat format, int64_t row_bytes) {
  const auto bytes = reinterpret_cast<const uint8_t*>(row);
  std::vector<float> values;
  switch (format) {
    case RowFormat::kF32:
      values.resize(static_cast<size_t>(row_bytes) / sizeof(float));
      std::memcpy(values.data(), row, static_cast<size_t>(row_bytes));
      break;
    case RowFormat::kPackedKv: {
      int64_t width = 128;
      while (packed_kv_bytes(width) < row_bytes) width += kFp8BlockElems;
      values.resize(static_cast<size_t>(width));
      decode_packed_kv(bytes, values.data(), width);
      break;
    }
    case RowFormat::kPackedIndex:
      values.resize(kPackedIndexElems);
      decode_packed_index(*reinterpret_cast<const PackedIndexRow*>(row), values.data());
      break;
  }
  return values;
}
// Stores `values` [width] as a row, after the roundings that a packed one needs.
inline void store_values(std::byte* row, RowFormat format, float* values, int64_t width) {
  switch (format) {
    case RowFormat::kF32:
      std::memcpy(row, values, static_cast<size_t>(width) * sizeof(float));
      break;
    case RowFormat::kPackedKv:
      fp8_round_trip(values, width - kPackedKvRope);
      bf16_round_trip(values + width - kPackedKvRope, kPackedKvRope);
      encode_packed_kv(values, width, reinterpret_cast<uint8_t*>(row));
      break;
    case RowFormat::kPackedIndex:
      fp4_round_trip(values, width);
      encode_packed_index(values, reinterpret_cast<PackedIndexRow*>(row));
      break;
  }
}

inline std::vector<float> row_values(const PagedRows& rows, int64_t r) {
  return row_values(rows.row(r), rows.format, rows.row_bytes);
}

}  // namespace ds4::test
