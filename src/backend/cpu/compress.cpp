// The compressor over a whole step: rows are windows of tokens that lie in the batch or, for the
// first window, in the frontier. No row needs another one, so they are split over threads; then the
// frontier is brought to where the token-by-token procedure of host/compress.cpp leaves it, bit for
// bit.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/cpu_ops.h"
#include "quant/round_trip.h"

namespace ds4::cpu {
namespace {

constexpr int64_t kMaxWidth = 1024;  // 2 * head_dim
constexpr int64_t kMaxPairs = 64;    // of RoPE
// The bias of a frontier row, whose scores have theirs already.
alignas(64) constexpr std::byte kNoBias[kMaxWidth * sizeof(float)] = {};

// One token's share in the pool.
struct Entry {
  const float* kv = nullptr;
  const float* gate = nullptr;
  const std::byte* bias = nullptr;
};

// The tokens of one span, and of the frontier before it.
struct Source {
  const KvSpan& span;
  const CompressedKv& state;
  ConstTensor kv, gate, ape;
  int64_t ratio;

  int64_t end() const { return span.first_pos + span.n_rows; }
  int64_t first_window() const { return span.first_pos / ratio; }
  int64_t n_windows() const { return end() / ratio - first_window(); }
  // Frontier row of position `pos` of the window that is open at `now`; ratio 4 keeps the window
  // before it in rows 0..3 (positions below zero are the empty one before the first).
  int64_t slot(int64_t pos, int64_t now) const {
    if (ratio != 4) return pos % ratio;
    return (pos & 3) + (pos >= now - now % 4 ? 4 : 0);
  }
  Entry at(int64_t pos) const {
    if (pos >= span.first_pos) {
      const int64_t row = span.first_row + pos - span.first_pos;
      return {kv.row<float>(row), gate.row<float>(row), ape.row_data(pos % ratio)};
    }
    const int64_t row = slot(pos, span.first_pos);
    return {state.frontier_kv.row<float>(row), state.frontier_score.row<float>(row), kNoBias};
  }
};

void add_entry(PoolArgs& pool, const Entry& entry, int64_t column, int64_t bias_bytes) {
  pool.kv[pool.n] = entry.kv + column;
  pool.gate[pool.n] = entry.gate + column;
  pool.bias[pool.n++] = entry.bias + column * bias_bytes;
}

// Ratio 4: series A (the first h columns) of the window before, then series B of window c itself.
PoolArgs window_pool(const Source& source, int64_t c, int64_t h, int64_t bias_bytes) {
  PoolArgs pool;
  const int64_t first = c * source.ratio;
  if (source.ratio == 4) {
    for (int64_t i = 0; i < 4; ++i) add_entry(pool, source.at(first - 4 + i), 0, bias_bytes);
  }
  const int64_t column = source.ratio == 4 ? h : 0;
  for (int64_t i = 0; i < source.ratio; ++i) {
    add_entry(pool, source.at(first + i), column, bias_bytes);
  }
  return pool;
}

void clear_row(const CompressedKv& state, int64_t row) {
  std::fill_n(state.frontier_kv.row<float>(row), state.frontier_kv.n_cols(), 0.0f);
  std::fill_n(state.frontier_score.row<float>(row), state.frontier_kv.n_cols(), -INFINITY);
}

}  // namespace

void CpuOps::do_compress(std::span<const KvSpan> spans, ConstTensor kv, ConstTensor gate,
                         ConstTensor ape, ConstTensor norm, std::span<const float> rope_freqs,
                         const CompressParams& params) {
  const bool half = ape.dtype() == DType::kF16;
  if (!half && ape.dtype() != DType::kF32) {
    HostOps::do_compress(spans, kv, gate, ape, norm, rope_freqs, params);
    return;
  }
  const int64_t h = norm.dim(0), w = kv.dim(1), n_pairs = static_cast<int64_t>(rope_freqs.size());
  DS4_CHECK(w <= kMaxWidth && params.ratio <= 128 && n_pairs <= kMaxPairs);
  const auto source_of = [&](const KvSpan& span) {
    return Source{span,        params.index_rows ? span.kv.index : span.kv.attn, kv, gate, ape,
                  params.ratio};
  };
  const auto emit = [&](const Source& source, int64_t c) {
    float row[kMaxWidth], table[2 * kMaxPairs];
    const PoolArgs pool = window_pool(source, c, h, half ? 2 : 4);
    (half ? kernels_.pool_f16 : kernels_.pool_f32)(row, pool, h);
    kernels_.rms_norm(row, row, norm.row<float>(0), h, params.rms_eps);
    for (int64_t i = 0; i < n_pairs; ++i) {
      rope_cos_sin(c * params.ratio, rope_freqs[static_cast<size_t>(i)], &table[2 * i],
                   &table[2 * i + 1]);
    }
    kernels_.rotate(row + h - 2 * n_pairs, table, n_pairs, /*inverse=*/false);
    if (!params.index_rows) {
      round_kv_row(row, h, 2 * n_pairs, params.precision);
    } else if (params.precision.index_fp4) {
      indexer_round_trip(row);
    }
    store_kv_row(source.state.rows.row(c), source.state.rows.format, row, h);
  };
  int64_t n_windows = 0;
  for (const KvSpan& span : spans) n_windows += source_of(span).n_windows();
  split(n_windows, 16 * h * params.ratio, [&](int64_t begin, int64_t end) {
    int64_t before = 0;  // windows of the spans so far
    for (const KvSpan& span : spans) {
      const Source source = source_of(span);
      const int64_t first = std::max(begin - before, int64_t{0});
      const int64_t last = std::min(end - before, source.n_windows());
      for (int64_t i = first; i < last; ++i) emit(source, source.first_window() + i);
      before += source.n_windows();
    }
  });

  const auto keep = [&](const Source& source, int64_t pos) {
    const int64_t row = source.slot(pos, source.end());
    const Entry entry = source.at(pos);
    const size_t bytes = static_cast<size_t>(w) * sizeof(float);
    std::memcpy(source.state.frontier_kv.row_data(row), entry.kv, bytes);
    float* score = source.state.frontier_score.row<float>(row);
    if (entry.bias == kNoBias) {
      std::memcpy(score, entry.gate, bytes);
    } else {
      (half ? kernels_.add_bias_f16 : kernels_.add_bias_f32)(score, entry.gate, entry.bias, w);
    }
  };
  for (const KvSpan& span : spans) {
    const Source source = source_of(span);
    const int64_t end = source.end(), open = end - end % params.ratio;
    if (source.n_windows() > 0 && params.ratio == 4) {
      for (int64_t pos = open - 4; pos < open; ++pos) keep(source, pos);
    }
    for (int64_t pos = std::max(open, span.first_pos); pos < end; ++pos) keep(source, pos);
    if (source.n_windows() > 0) {
      for (int64_t pos = end; pos < open + params.ratio; ++pos) {
        clear_row(source.state, source.slot(pos, open));
      }
    }
  }
}

}  // namespace ds4::cpu
