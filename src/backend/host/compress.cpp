// The compressor, written as the token-by-token procedure that defines it: every token enters the
// frontier, and the one that completes a window emits a row. Prefill is the same loop over more
// tokens.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/host/host_ops.h"
#include "quant/codec.h"
#include "quant/round_trip.h"

namespace ds4 {
namespace {

constexpr int64_t kMaxWidth = 1024;  // 2 * head_dim
constexpr int kMaxPooled = 128;

// One entry of the pool of a channel: where its value and score stand in the frontier.
struct Pool {
  const float* kv[kMaxPooled];
  const float* score[kMaxPooled];
  int n = 0;
  void add(const float* kv_at, const float* score_at) {
    kv[n] = kv_at;
    score[n++] = score_at;
  }
};

// Ratio 4 pools series A (the first h columns) of the previous window, then series B of the current
// one; ratio 128 pools the whole frontier. The first window's missing predecessor is (0, -inf).
Pool window_pool(const CompressedKv& state, int ratio, int64_t h) {
  Pool pool;
  if (ratio == 4) {
    for (int r = 0; r < 4; ++r) {
      pool.add(state.frontier_kv.row<float>(r), state.frontier_score.row<float>(r));
    }
    for (int r = 4; r < 8; ++r) {
      pool.add(state.frontier_kv.row<float>(r) + h, state.frontier_score.row<float>(r) + h);
    }
    return pool;
  }
  for (int r = 0; r < ratio; ++r) {
    pool.add(state.frontier_kv.row<float>(r), state.frontier_score.row<float>(r));
  }
  return pool;
}

void pool_channels(float* out, const Pool& pool, int64_t h) {
  for (int64_t j = 0; j < h; ++j) {
    float max = pool.score[0][j];
    for (int i = 1; i < pool.n; ++i) max = std::max(max, pool.score[i][j]);
    double sum = 0, value = 0;
    for (int i = 0; i < pool.n; ++i) {
      const float e = std::exp(pool.score[i][j] - max);
      sum += static_cast<double>(e);
      value += static_cast<double>(e) * static_cast<double>(pool.kv[i][j]);
    }
    out[j] = static_cast<float>(value / sum);
  }
}

void finish_row(float* row, const float* norm, int64_t h, int64_t pos, std::span<const float> freqs,
                const CompressParams& params) {
  const float scale = inverse_rms(row, h, params.rms_eps);
  for (int64_t j = 0; j < h; ++j) row[j] = norm[j] * (row[j] * scale);
  const int64_t n_pairs = static_cast<int64_t>(freqs.size());
  for (int64_t i = 0; i < n_pairs; ++i) {
    float table[2];
    rope_cos_sin(pos, freqs[static_cast<size_t>(i)], &table[0], &table[1]);
    rotate_tail(row, h - 2 * (n_pairs - 1 - i), table, 1, /*inverse=*/false);
  }
  if (!params.index_rows) {
    round_kv_row(row, h, 2 * n_pairs, params.precision);
  } else if (params.precision.index_fp4) {
    indexer_round_trip(row);
  }
}

// The current window becomes the previous one; its own rows are cleared so that equal histories
// have equal frontiers, however they came about.
void shift_frontier(const CompressedKv& state) {
  for (int r = 0; r < 4; ++r) {
    const size_t bytes = static_cast<size_t>(state.frontier_kv.n_cols()) * sizeof(float);
    std::memcpy(state.frontier_kv.row_data(r), state.frontier_kv.row_data(r + 4), bytes);
    std::memcpy(state.frontier_score.row_data(r), state.frontier_score.row_data(r + 4), bytes);
  }
}

void clear_rows(const CompressedKv& state, int begin, int end) {
  for (int r = begin; r < end; ++r) {
    float* kv = state.frontier_kv.row<float>(r);
    float* score = state.frontier_score.row<float>(r);
    for (int64_t j = 0; j < state.frontier_kv.n_cols(); ++j) {
      kv[j] = 0.0f;
      score[j] = -INFINITY;
    }
  }
}

}  // namespace

void HostOps::do_compress(std::span<const KvSpan> spans, ConstTensor kv, ConstTensor gate,
                          ConstTensor ape, ConstTensor norm, std::span<const float> rope_freqs,
                          const CompressParams& params) {
  const int64_t h = norm.dim(0), w = kv.dim(1);
  const int ratio = params.ratio;
  DS4_CHECK(w <= kMaxWidth && ratio <= kMaxPooled);
  pool_.parallel_for(static_cast<int64_t>(spans.size()), [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      const KvSpan& span = spans[static_cast<size_t>(s)];
      const CompressedKv& state = params.index_rows ? span.kv.index : span.kv.attn;
      for (int64_t i = 0; i < span.n_rows; ++i) {
        const int64_t pos = span.first_pos + i, in_window = pos % ratio;
        const int64_t slot = ratio == 4 ? 4 + in_window : in_window;
        std::memcpy(state.frontier_kv.row_data(slot), kv.row_data(span.first_row + i),
                    static_cast<size_t>(w) * sizeof(float));
        float bias[kMaxWidth];
        decode_row(ape.dtype(), ape.row_data(in_window), bias, w);
        const float* g = gate.row<float>(span.first_row + i);
        float* score = state.frontier_score.row<float>(slot);
        for (int64_t j = 0; j < w; ++j) score[j] = g[j] + bias[j];
        if ((pos + 1) % ratio != 0) continue;

        float row[kMaxWidth];
        pool_channels(row, window_pool(state, ratio, h), h);
        finish_row(row, norm.row<float>(0), h, pos + 1 - ratio, rope_freqs, params);
        store_kv_row(state.rows.row((pos + 1) / ratio - 1), state.rows.format, row, h);
        if (ratio == 4) shift_frontier(state);
        clear_rows(state, ratio == 4 ? 4 : 0, ratio == 4 ? 8 : ratio);
      }
    }
  });
}

}  // namespace ds4
