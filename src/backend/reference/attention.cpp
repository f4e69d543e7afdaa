// Mixed attention over raw and compressed rows, and the indexer that chooses the compressed ones.
#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/reference/dot.h"
#include "backend/reference/reference_ops.h"

namespace ds4::reference {
namespace {

struct Candidate {
  float score;
  int32_t row;
};

// Larger score first, equal scores (and the two zeros) by smaller row.
bool before(const Candidate& a, const Candidate& b) {
  return a.score != b.score ? a.score > b.score : a.row < b.row;
}

// The span of batch row `n`. Few spans, so a walk will do.
const KvSpan& span_of(std::span<const KvSpan> spans, int64_t n) {
  size_t i = 0;
  while (n >= spans[i].first_row + spans[i].n_rows) ++i;
  return spans[i];
}

// The rows a query sees, in the order in which they are summed.
void visible_rows(std::vector<const float*>& rows, const KvSpan& span, int64_t pos, ConstTensor kv,
                  ConstTensor selected, int64_t batch_row, const AttentionParams& params) {
  rows.clear();
  const int64_t ring_rows = span.kv.ring.dim(0);
  for (int64_t p = std::max<int64_t>(0, pos - params.window + 1); p <= pos; ++p) {
    rows.push_back(p < span.first_pos ? span.kv.ring.row<float>(p % ring_rows)
                                      : kv.row<float>(span.first_row + p - span.first_pos));
  }
  if (params.ratio == 0) return;
  if (selected.empty()) {
    for (int64_t c = 0; c < (pos + 1) / params.ratio; ++c) {
      rows.push_back(span.kv.attn.rows.row_f32(c));
    }
    return;
  }
  const int32_t* choice = selected.row<int32_t>(batch_row);
  for (int64_t i = 0; i < selected.dim(1) && choice[i] >= 0; ++i) {
    rows.push_back(span.kv.attn.rows.row_f32(choice[i]));
  }
}

void attend(float* out, const float* q, float sink, const std::vector<const float*>& rows,
            std::vector<float>& scores, int64_t head_dim) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  scores.resize(rows.size());
  float max = sink;
  for (size_t i = 0; i < rows.size(); ++i) {
    scores[i] = scale * dot(q, rows[i], head_dim);
    max = std::max(max, scores[i]);
  }
  std::fill_n(out, head_dim, 0.0f);
  float sum = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const float e = std::exp(scores[i] - max);
    sum += e;
    const float* row = rows[i];
    for (int64_t d = 0; d < head_dim; ++d) out[d] += e * row[d];
  }
  sum += std::exp(sink - max);
  for (int64_t d = 0; d < head_dim; ++d) out[d] /= sum;
}

}  // namespace

void ReferenceOps::do_index_topk(Tensor selected, ConstTensor q, ConstTensor weights, float scale,
                                 std::span<const KvSpan> spans) {
  const int64_t topk = selected.dim(1), n_heads = q.dim(1);
  pool_.parallel_for(q.dim(0), [&](int64_t begin, int64_t end) {
    thread_local std::vector<Candidate> candidates;
    for (int64_t n = begin; n < end; ++n) {
      const KvSpan& span = span_of(spans, n);
      const int64_t visible = (span.first_pos + n - span.first_row + 1) / 4;
      int32_t* out = selected.row<int32_t>(n);
      if (visible <= topk) {
        for (int64_t i = 0; i < topk; ++i) out[i] = i < visible ? static_cast<int32_t>(i) : -1;
        continue;
      }
      candidates.resize(static_cast<size_t>(visible));
      const float* w = weights.row<float>(n);
      for (int64_t c = 0; c < visible; ++c) {
        float score = 0;
        for (int64_t h = 0; h < n_heads; ++h) {
          const float d = dot(q.row<float>(n * n_heads + h), span.kv.index.rows.row_f32(c), 128);
          score += w[h] * scale * std::max(0.0f, d);
        }
        if (std::isnan(score)) score = -INFINITY;
        candidates[static_cast<size_t>(c)] = {score, static_cast<int32_t>(c)};
      }
      std::nth_element(candidates.begin(), candidates.begin() + topk, candidates.end(), before);
      for (int64_t i = 0; i < topk; ++i) out[i] = candidates[static_cast<size_t>(i)].row;
      std::sort(out, out + topk);
    }
  });
}

void ReferenceOps::do_attention(Tensor out, ConstTensor q, ConstTensor kv, ConstTensor sinks,
                                ConstTensor selected, std::span<const KvSpan> spans,
                                const AttentionParams& params) {
  const int64_t n_heads = q.dim(1), head_dim = q.dim(2);
  const float* sink = sinks.row<float>(0);
  pool_.parallel_for(q.dim(0), [&](int64_t begin, int64_t end) {
    thread_local std::vector<const float*> rows;
    thread_local std::vector<float> scores;
    for (int64_t n = begin; n < end; ++n) {
      const KvSpan& span = span_of(spans, n);
      const int64_t pos = span.first_pos + n - span.first_row;
      visible_rows(rows, span, pos, kv, selected, n, params);
      for (int64_t h = 0; h < n_heads; ++h) {
        attend(out.row<float>(n * n_heads + h), q.row<float>(n * n_heads + h), sink[h], rows,
               scores, head_dim);
      }
    }
  });
}

}  // namespace ds4::reference
