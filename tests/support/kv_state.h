#pragma once
// Everything a KV cache on a host backend holds, as bytes that two caches with the same history
// must share: ring rows by position, compressed rows, whole frontiers.
#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "engine/kv_cache.h"
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

inline std::vector<float> kv_state(const KvCache& cache, std::span<const int> ratios) {
  std::vector<float> state;
  const auto add = [&](const float* row, int64_t n) { state.insert(state.end(), row, row + n); };
  const auto add_series = [&](const CompressedKv& series, int ratio) {
    for (int64_t r = 0; r < cache.length() / ratio; ++r) {
      const std::vector<float> row = row_values(series.rows, r);
      add(row.data(), std::ssize(row));
    }
    for (int64_t r = 0; r < series.frontier_kv.dim(0); ++r) {
      add(series.frontier_kv.row<float>(r), series.frontier_kv.n_cols());
      add(series.frontier_score.row<float>(r), series.frontier_score.n_cols());
    }
  };
  for (size_t i = 0; i < ratios.size(); ++i) {
    const LayerKv& layer = cache.layer(static_cast<int>(i));
    for (int64_t p = std::max<int64_t>(0, cache.length() - 128); p < cache.length(); ++p) {
      const std::vector<float> row =
          row_values(layer.ring.row(p), layer.ring.format, layer.ring.row_bytes);
      add(row.data(), std::ssize(row));
    }
    if (ratios[i] != 0) add_series(layer.attn, ratios[i]);
    if (ratios[i] == 4) add_series(layer.index, ratios[i]);
  }
  return state;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace ds4::test
