// The lightning indexer: which compressed rows a query attends to.
//
// Many queries are split over the threads; a few over the rows instead, because at long context the
// scores of one query are all of the work. Candidates have a total order, so parts merge exactly.
#include <algorithm>

#include "backend/cpu/attention_scratch.h"
#include "backend/cpu/cpu_ops.h"

namespace ds4::cpu {
namespace {

static_assert(TopRows::kMaxAdd == kPageRows);

// Fewer rows than these are not worth waking a thread for.
constexpr int64_t kMinPartRows = 512;

// Compressed rows that are complete at the query of batch row `n`.
int64_t visible_rows(const KvSpan& span, int64_t n) {
  return (span.first_pos + n - span.first_row + 1) / 4;
}

}  // namespace

void CpuOps::score_rows(TopRows& best, const IndexQuery& query, const PagedRows& rows,
                        int64_t begin, int64_t end) const {
  const auto score =
      rows.format == RowFormat::kF32 ? kernels_.index_scores_f32 : kernels_.index_scores_fp4;
  for (int64_t first = begin; first < end;) {
    // Rows of one page stand together.
    const int64_t n = std::min(kPageRows - first % kPageRows, end - first);
    float scores[kPageRows];
    score({.query = &query, .rows = rows.row(first), .n_rows = n, .scores = scores});
    best.add(scores, n, first);
    first += n;
  }
}

void CpuOps::choose_rows(int32_t* out, int64_t topk, const IndexQuery& query, const PagedRows& rows,
                         int64_t visible, std::byte* memory, int64_t part_bytes, int64_t n_heads) {
  const int64_t n_parts = std::clamp<int64_t>(visible / kMinPartRows, 1, pool_.n_threads());
  pool_.parallel_for(n_parts, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const IndexPart part = index_part(memory + i * part_bytes, n_heads);
      TopRows best(kernels_, part.candidates, topk);
      score_rows(best, query, rows, visible * i / n_parts, visible * (i + 1) / n_parts);
      *part.n_candidates = best.size();
    }
  });
  const IndexPart first = index_part(memory, n_heads);
  TopRows best(kernels_, first.candidates, topk, *first.n_candidates);
  for (int64_t i = 1; i < n_parts; ++i) {
    const IndexPart part = index_part(memory + i * part_bytes, n_heads);
    TopRows other(kernels_, part.candidates, topk, *part.n_candidates);
    best.merge(other);
  }
  best.finish(out);
}

void CpuOps::do_index_topk(Tensor selected, ConstTensor q, ConstTensor weights, float scale,
                           std::span<const KvSpan> spans) {
  const int64_t topk = selected.dim(1), n_heads = q.dim(1), n_queries = q.dim(0);
  const int64_t n_parts = pool_.n_threads(), part_bytes = index_part_bytes(n_heads, topk);
  DS4_CHECK(topk >= 1);
  std::byte* const memory = index_memory_.take<std::byte>(n_parts * part_bytes);

  // Where every visible row is chosen there is nothing to score.
  const auto all_chosen = [&](int64_t n) {
    const int64_t visible = visible_rows(span_of(spans, n), n);
    if (visible > topk) return false;
    int32_t* out = selected.row<int32_t>(n);
    for (int64_t i = 0; i < topk; ++i) out[i] = i < visible ? static_cast<int32_t>(i) : -1;
    return true;
  };
  const auto query_at = [&](int64_t n, const IndexPart& part) {
    return make_index_query(part.query, q.row<float>(n * n_heads), weights.row<float>(n), scale,
                            n_heads, span_of(spans, n).kv.index.rows.format);
  };
  if (n_queries < n_parts) {
    for (int64_t n = 0; n < n_queries; ++n) {
      if (all_chosen(n)) continue;
      const KvSpan& span = span_of(spans, n);
      choose_rows(selected.row<int32_t>(n), topk, query_at(n, index_part(memory, n_heads)),
                  span.kv.index.rows, visible_rows(span, n), memory, part_bytes, n_heads);
    }
    return;
  }
  // Pieces are parts of the queries, so that a piece's number finds its memory.
  pool_.parallel_for(n_parts, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const IndexPart part = index_part(memory + p * part_bytes, n_heads);
      for (int64_t n = n_queries * p / n_parts; n < n_queries * (p + 1) / n_parts; ++n) {
        if (all_chosen(n)) continue;
        const KvSpan& span = span_of(spans, n);
        TopRows best(kernels_, part.candidates, topk);
        score_rows(best, query_at(n, part), span.kv.index.rows, 0, visible_rows(span, n));
        best.finish(selected.row<int32_t>(n));
      }
    }
  });
}

}  // namespace ds4::cpu
