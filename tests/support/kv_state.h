#pragma once
// Everything a KV cache on a host backend holds, as bytes that two caches with the same history
// must share: ring rows by position, compressed rows, whole frontiers.
#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "engine/kv_cache.h"
#include "tests/support/kv_rows.h"

namespace ds4::test {

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
