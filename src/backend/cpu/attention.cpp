// Mixed attention over raw and compressed rows, and the indexer that chooses the compressed ones.
//
// Attention is a running softmax over tiles of kAttendTile rows, in the canonical order of
// ops/ops.h: raw rows by position, compressed rows by index, the sink last. Tiles start at the
// query's first visible row, so they depend on the query alone; and no buffer grows with the
// context.
#include <algorithm>
#include <cmath>

#include "backend/cpu/cpu_ops.h"

namespace ds4::cpu {
namespace {

constexpr int64_t kMaxHeads = 128;  // Pro's

// The span of batch row `n`; a step has few.
const KvSpan& span_of(std::span<const KvSpan> spans, int64_t n) {
  size_t i = 0;
  while (n >= spans[i].first_row + spans[i].n_rows) ++i;
  return spans[i];
}

// Collects rows into tiles and runs the kernel on each full one.
class TileRunner {
 public:
  TileRunner(void (*attend)(const AttendArgs&), const AttendArgs& args)
      : attend_(attend), args_(args) {
    args_.rows = rows_;
  }
  void add(const float* row) {
    rows_[args_.n_rows++] = row;
    if (args_.n_rows == kAttendTile) flush();
  }
  void flush() {
    if (args_.n_rows > 0) attend_(args_);
    args_.n_rows = 0;
  }

 private:
  void (*attend_)(const AttendArgs&);
  AttendArgs args_;
  const float* rows_[kAttendTile];
};

// What a query sees.
struct Query {
  const KvSpan* span = nullptr;
  int64_t pos = 0;
  ConstTensor kv;  // rows of the batch
  const int32_t* selected =
      nullptr;  // chosen compressed rows, n_selected of them, -1 ends; or null
  int64_t n_selected = 0;
};

void add_visible_rows(TileRunner& tiles, const Query& query, const AttentionParams& params) {
  const KvSpan& span = *query.span;
  const int64_t ring_rows = span.kv.ring.dim(0);
  for (int64_t p = std::max<int64_t>(0, query.pos - params.window + 1); p <= query.pos; ++p) {
    tiles.add(p < span.first_pos ? span.kv.ring.row<float>(p % ring_rows)
                                 : query.kv.row<float>(span.first_row + p - span.first_pos));
  }
  if (params.ratio == 0) return;
  const PagedRows& rows = span.kv.attn.rows;
  if (query.selected != nullptr) {
    for (int64_t i = 0; i < query.n_selected && query.selected[i] >= 0; ++i) {
      tiles.add(rows.row_f32(query.selected[i]));
    }
  } else {
    const int64_t visible = (query.pos + 1) / params.ratio;
    for (int64_t c = 0; c < visible; ++c) tiles.add(rows.row_f32(c));
  }
}

}  // namespace

void CpuOps::do_attention(Tensor out, ConstTensor q, ConstTensor kv, ConstTensor sinks,
                          ConstTensor selected, std::span<const KvSpan> spans,
                          const AttentionParams& params) {
  const int64_t n_heads = q.dim(1), head_dim = q.dim(2);
  const float* sink = sinks.row<float>(0);
  DS4_CHECK(n_heads <= kMaxHeads);

  // Heads [first, first + n) of query row `row`.
  const auto run = [&](int64_t row, int64_t first, int64_t n) {
    const KvSpan& span = span_of(spans, row);
    float max[kMaxHeads], sum[kMaxHeads];
    float* head_out = out.row<float>(row * n_heads + first);
    std::copy_n(sink + first, n, max);
    std::fill_n(sum, n, 0.0f);
    std::fill_n(head_out, n * head_dim, 0.0f);
    TileRunner tiles(kernels_.attend, {.q = q.row<float>(row * n_heads + first),
                                       .n_heads = n,
                                       .head_dim = head_dim,
                                       .scale = 1.0f / std::sqrt(static_cast<float>(head_dim)),
                                       .max = max,
                                       .sum = sum,
                                       .out = head_out});
    add_visible_rows(tiles,
                     {.span = &span,
                      .pos = span.first_pos + row - span.first_row,
                      .kv = kv,
                      .selected = selected.empty() ? nullptr : selected.row<int32_t>(row),
                      .n_selected = selected.empty() ? 0 : selected.dim(1)},
                     params);
    tiles.flush();
    for (int64_t h = 0; h < n; ++h) {
      const float total = sum[h] + std::exp(sink[first + h] - max[h]);
      for (int64_t d = 0; d < head_dim; ++d) head_out[h * head_dim + d] /= total;
    }
  };
  split(q.n_rows(), 2 * params.window * head_dim, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end;) {
      const int64_t first = i % n_heads;
      const int64_t n = std::min(n_heads - first, end - i);
      run(i / n_heads, first, n);
      i += n;
    }
  });
}

// Keeps the topk best of what it has seen in a buffer of 2 topk: once full, the worse half goes,
// and only what beats the last one kept can enter. The order is total, so the set is the exact
// answer.
void CpuOps::choose_rows(int32_t* out, int64_t topk, const float* q, const float* weights,
                         int64_t n_heads, const PagedRows& rows, int64_t visible,
                         Candidate* candidates) const {
  const auto before = [](const Candidate& a, const Candidate& b) { return a.before(b); };
  const auto keep_best = [&](int64_t n) {
    std::nth_element(candidates, candidates + (topk - 1), candidates + n, before);
  };
  int64_t n = 0;
  bool full = false;  // candidates[topk - 1] is the worst of the best topk so far
  Candidate bar;
  for (int64_t first = 0; first < visible; first += kPageRows) {
    float scores[kPageRows];
    const int64_t n_rows = std::min(kPageRows, visible - first);
    kernels_.index_scores({.q = q,
                           .weights = weights,
                           .rows = rows.row_f32(first),
                           .n_heads = n_heads,
                           .dim = rows.row_bytes / static_cast<int64_t>(sizeof(float)),
                           .n_rows = n_rows,
                           .scores = scores});
    for (int64_t c = 0; c < n_rows; ++c) {
      const Candidate candidate{std::isnan(scores[c]) ? -INFINITY : scores[c],
                                static_cast<int32_t>(first + c)};
      if (full && !candidate.before(bar)) continue;
      candidates[n++] = candidate;
      if (n < 2 * topk) continue;
      keep_best(n);
      bar = candidates[topk - 1];
      full = true;
      n = topk;
    }
  }
  keep_best(n);
  for (int64_t i = 0; i < topk; ++i) out[i] = candidates[i].row;
  std::sort(out, out + topk);
}

void CpuOps::do_index_topk(Tensor selected, ConstTensor q, ConstTensor weights, float scale,
                           std::span<const KvSpan> spans) {
  const int64_t topk = selected.dim(1), n_heads = q.dim(1), n_queries = q.dim(0);
  const int64_t n_parts = pool_.n_threads();
  DS4_CHECK(n_heads <= kMaxHeads && topk >= 1);
  Candidate* const all_candidates = candidates_.take<Candidate>(n_parts * 2 * topk);

  const auto choose = [&](int64_t n, Candidate* candidates) {
    const KvSpan& span = span_of(spans, n);
    const int64_t visible = (span.first_pos + n - span.first_row + 1) / 4;
    int32_t* out = selected.row<int32_t>(n);
    if (visible <= topk) {
      for (int64_t i = 0; i < topk; ++i) out[i] = i < visible ? static_cast<int32_t>(i) : -1;
      return;
    }
    float scaled[kMaxHeads];
    for (int64_t h = 0; h < n_heads; ++h) scaled[h] = weights.row<float>(n)[h] * scale;
    choose_rows(out, topk, q.row<float>(n * n_heads), scaled, n_heads, span.kv.index.rows, visible,
                candidates);
  };
  // Pieces are parts of the queries, so that a piece's number finds its candidates.
  pool_.parallel_for(n_parts, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      Candidate* candidates = all_candidates + part * 2 * topk;
      for (int64_t n = n_queries * part / n_parts; n < n_queries * (part + 1) / n_parts; ++n) {
        choose(n, candidates);
      }
    }
  });
}

}  // namespace ds4::cpu
