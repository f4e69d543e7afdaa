// Routed experts. Threads take weight rows of every active expert; a run of weight rows meets the
// expert's activation rows in a small tile of results, from which they go to their places.
#include <algorithm>

#include "backend/cpu/cpu_ops.h"

namespace ds4::cpu {
namespace {

constexpr int64_t kTileW = 64;  // weight rows of a tile

// Dot products of [activation row, weight row].
struct Tile {
  float value[kMaxDotRows][kTileW];
};

// `next`: weights of the tile after this one.
DotArgs tile_args(Tile& tile, ConstTensor w, int64_t first_row, int64_t n_w, const void* const* x,
                  int64_t n_x, const std::byte* next) {
  return {.w = w.row_data(first_row),
          .w_stride = w.row_stride(),
          .n_w = n_w,
          .cols = w.n_cols(),
          .x = x,
          .n_x = n_x,
          .out = tile.value[0],
          .out_stride = kTileW,
          .next = next};
}

}  // namespace

void CpuOps::do_experts_gate_up(Tensor mid, ConstTensor x, ConstTensor ids, ConstTensor weights,
                                ConstTensor gate, ConstTensor up, float limit) {
  const int64_t k = ids.dim(1), n_mid = gate.dim(1);
  groups_.assign(ids, gate.dim(0));
  activations_.prepare(activation_form(gate.dtype(), options_.integer_activations), x, 1, pool_);
  const float* weight = weights.row<float>(0);

  const Form gate_form = form_of(gate), up_form = form_of(up);

  // mid rows of `pairs`, columns [f, f + n_w).
  const auto run_tile = [&](int64_t e, std::span<const int32_t> pairs, int64_t f, int64_t n_w) {
    const void* rows[kMaxDotRows];
    for (size_t i = 0; i < pairs.size(); ++i) rows[i] = activations_.row(pairs[i] / k);
    const int64_t n_x = static_cast<int64_t>(pairs.size());
    Tile g, u;
    const int64_t row = e * n_mid + f;
    const int64_t after = std::min(row + n_w, gate.n_rows() - 1);
    dot(gate_form, tile_args(g, gate_form.w, row, n_w, rows, n_x, up_form.w.row_data(row)));
    dot(up_form, tile_args(u, up_form.w, row, n_w, rows, n_x, gate_form.w.row_data(after)));
    for (size_t i = 0; i < pairs.size(); ++i) {
      kernels_.swiglu(mid.row<float>(pairs[i]) + f, g.value[i], u.value[i], weight[pairs[i]], limit,
                      n_w);
    }
  };
  split_rows(n_mid, 2 * gate.dim(2) * mid.n_rows(), [&](int64_t begin, int64_t end) {
    for (int32_t e : groups_.active()) {
      const std::span<const int32_t> all = groups_.pairs_of(e);
      for (size_t p = 0; p < all.size(); p += kMaxDotRows) {
        const auto pairs = all.subspan(p, std::min<size_t>(kMaxDotRows, all.size() - p));
        for (int64_t f = begin; f < end; f += kTileW) {
          run_tile(e, pairs, f, std::min(kTileW, end - f));
        }
      }
    }
  });
}

void CpuOps::do_experts_down(Tensor out, ConstTensor mid, ConstTensor ids, ConstTensor down) {
  const int64_t k = ids.dim(1), hidden = down.dim(1);
  groups_.assign(ids, down.dim(0));
  activations_.prepare(activation_form(down.dtype(), options_.integer_activations), mid, 1, pool_);

  const Form form = form_of(down);

  // Adds the pairs' results to out, columns [d, d + n_w). Experts come in ascending id and the
  // pairs of one expert in ascending slot, so a row adds its slots in order.
  const auto run_tile = [&](int64_t e, std::span<const int32_t> pairs, int64_t d, int64_t n_w) {
    const void* rows[kMaxDotRows];
    for (size_t i = 0; i < pairs.size(); ++i) rows[i] = activations_.row(pairs[i]);
    Tile tile;
    const int64_t row = e * hidden + d;
    const int64_t after = std::min(row + n_w, down.n_rows() - 1);
    dot(form, tile_args(tile, form.w, row, n_w, rows, static_cast<int64_t>(pairs.size()),
                        form.w.row_data(after)));
    for (size_t i = 0; i < pairs.size(); ++i) {
      float* sum = out.row<float>(pairs[i] / k) + d;
      for (int64_t j = 0; j < n_w; ++j) sum[j] += tile.value[i][j];
    }
  };
  split_rows(hidden, down.dim(2) * mid.n_rows(), [&](int64_t begin, int64_t end) {
    for (int64_t n = 0; n < out.dim(0); ++n) {
      std::fill(out.row<float>(n) + begin, out.row<float>(n) + end, 0.0f);
    }
    for (int32_t e : groups_.active()) {
      const std::span<const int32_t> all = groups_.pairs_of(e);
      for (size_t p = 0; p < all.size(); p += kMaxDotRows) {
        const auto pairs = all.subspan(p, std::min<size_t>(kMaxDotRows, all.size() - p));
        for (int64_t d = begin; d < end; d += kTileW) {
          run_tile(e, pairs, d, std::min(kTileW, end - d));
        }
      }
    }
  });
}

void CpuOps::do_swiglu(Tensor h, ConstTensor g, ConstTensor u, float limit) {
  split(h.n_rows(), 16 * h.n_cols(), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      kernels_.swiglu(h.row<float>(r), g.row<float>(r), u.row<float>(r), 1.0f, limit, h.n_cols());
    }
  });
}

}  // namespace ds4::cpu
