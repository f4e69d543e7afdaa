// Mixed attention over raw and compressed rows, and the indexer that chooses the compressed ones.
#include <algorithm>
#include <cmath>

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

// The rows a query sees, in the order in which they are summed, and their scores.
struct Visible {
  const float** rows = nullptr;
  float* scores = nullptr;
  int64_t n = 0;
};
constexpr int64_t kVisibleBytes = sizeof(const float*) + sizeof(float);

void find_visible(Visible& visible, const KvSpan& span, int64_t pos, ConstTensor kv,
                  ConstTensor selected, int64_t batch_row, const AttentionParams& params) {
  visible.n = 0;
  const auto add = [&](const float* row) { visible.rows[visible.n++] = row; };
  DS4_CHECK(span.kv.ring.format == RowFormat::kF32);
  for (int64_t p = std::max<int64_t>(0, pos - params.window + 1); p <= pos; ++p) {
    add(p < span.first_pos ? span.kv.ring.row_f32(p)
                           : kv.row<float>(span.first_row + p - span.first_pos));
  }
  if (params.ratio == 0) return;
  if (selected.empty()) {
    for (int64_t c = 0; c < (pos + 1) / params.ratio; ++c) {
      add(span.kv.attn.rows.row_f32(c));
    }
    return;
  }
  const int32_t* choice = selected.row<int32_t>(batch_row);
  for (int64_t i = 0; i < selected.dim(1) && choice[i] >= 0; ++i) {
    add(span.kv.attn.rows.row_f32(choice[i]));
  }
}

// At most as many rows as any query of the spans sees.
int64_t max_visible(std::span<const KvSpan> spans, ConstTensor selected,
                    const AttentionParams& params) {
  if (params.ratio == 0) return params.window;
  if (!selected.empty()) return params.window + selected.dim(1);
  int64_t compressed = 0;
  for (const KvSpan& span : spans) {
    compressed = std::max(compressed, (span.first_pos + span.n_rows) / params.ratio);
  }
  return params.window + compressed;
}

void attend(float* out, const float* q, float sink, const Visible& visible, int64_t head_dim) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  float max = sink;
  for (int64_t i = 0; i < visible.n; ++i) {
    visible.scores[i] = scale * dot(q, visible.rows[i], head_dim);
    max = std::max(max, visible.scores[i]);
  }
  std::fill_n(out, head_dim, 0.0f);
  float sum = 0;
  for (int64_t i = 0; i < visible.n; ++i) {
    const float e = std::exp(visible.scores[i] - max);
    sum += e;
    const float* row = visible.rows[i];
    for (int64_t d = 0; d < head_dim; ++d) out[d] += e * row[d];
  }
  sum += std::exp(sink - max);
  for (int64_t d = 0; d < head_dim; ++d) out[d] /= sum;
}

}  // namespace

int64_t scratch_bytes(const ModelConfig& config, int64_t max_rows, int n_threads) {
  // As far back as any session of this model can look.
  const int64_t visible = config.window + std::max(config.index_topk, config.max_position / 128);
  const int64_t candidates = config.max_position / 4 * static_cast<int64_t>(sizeof(Candidate));
  const int64_t matrix =
      config.hc_mix_rows() * config.n_hc * config.hidden * static_cast<int64_t>(sizeof(float));
  return matrix + n_threads * (candidates + visible * kVisibleBytes) +
         ExpertGroups::bytes_needed(config.n_experts, max_rows * config.n_experts_used);
}

void ReferenceOps::do_reserve(const ModelConfig& config, int64_t max_rows) {
  const int64_t visible = config.window + std::max(config.index_topk, config.max_position / 128);
  attended_.reserve(pool_.n_threads() * visible * kVisibleBytes);
  candidates_.reserve(pool_.n_threads() * (config.max_position / 4) *
                      static_cast<int64_t>(sizeof(Candidate)));
  decoded_.reserve(config.hc_mix_rows() * config.n_hc * config.hidden *
                   static_cast<int64_t>(sizeof(float)));
  groups_.reserve(config.n_experts, max_rows * config.n_experts_used);
}

void ReferenceOps::do_index_topk(Tensor selected, ConstTensor q, ConstTensor weights, float scale,
                                 std::span<const KvSpan> spans) {
  const int64_t topk = selected.dim(1), n_heads = q.dim(1), n_queries = q.dim(0);
  int64_t most = 0;
  for (const KvSpan& span : spans) most = std::max(most, (span.first_pos + span.n_rows) / 4);
  const int64_t n_parts = pool_.n_threads();
  Candidate* const all_candidates = candidates_.take<Candidate>(n_parts * most);

  const auto choose = [&](int64_t n, Candidate* candidates) {
    const KvSpan& span = span_of(spans, n);
    const int64_t visible = (span.first_pos + n - span.first_row + 1) / 4;
    int32_t* out = selected.row<int32_t>(n);
    if (visible <= topk) {
      for (int64_t i = 0; i < topk; ++i) out[i] = i < visible ? static_cast<int32_t>(i) : -1;
      return;
    }
    const float* w = weights.row<float>(n);
    for (int64_t c = 0; c < visible; ++c) {
      float score = 0;
      for (int64_t h = 0; h < n_heads; ++h) {
        const float d = dot(q.row<float>(n * n_heads + h), span.kv.index.rows.row_f32(c), 128);
        score += w[h] * scale * std::max(0.0f, d);
      }
      if (std::isnan(score)) score = -INFINITY;
      candidates[c] = {score, static_cast<int32_t>(c)};
    }
    std::nth_element(candidates, candidates + topk, candidates + visible, before);
    for (int64_t i = 0; i < topk; ++i) out[i] = candidates[i].row;
    std::sort(out, out + topk);
  };
  // Pieces are parts of the queries, so that a piece's number finds its candidates.
  pool_.parallel_for(n_parts, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      for (int64_t n = n_queries * part / n_parts; n < n_queries * (part + 1) / n_parts; ++n) {
        choose(n, all_candidates + part * most);
      }
    }
  });
}

void ReferenceOps::do_attention(Tensor out, ConstTensor q, ConstTensor kv, ConstTensor sinks,
                                ConstTensor selected, std::span<const KvSpan> spans,
                                const AttentionParams& params) {
  const int64_t n_heads = q.dim(1), head_dim = q.dim(2), n_queries = q.dim(0);
  const float* sink = sinks.row<float>(0);
  const int64_t n_parts = pool_.n_threads(), most = max_visible(spans, selected, params);
  const auto all_rows =
      reinterpret_cast<const float**>(attended_.take<std::byte>(n_parts * most * kVisibleBytes));
  const auto all_scores = reinterpret_cast<float*>(all_rows + n_parts * most);
  pool_.parallel_for(n_parts, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      Visible visible{.rows = all_rows + part * most, .scores = all_scores + part * most};
      for (int64_t n = n_queries * part / n_parts; n < n_queries * (part + 1) / n_parts; ++n) {
        const KvSpan& span = span_of(spans, n);
        find_visible(visible, span, span.first_pos + n - span.first_row, kv, selected, n, params);
        for (int64_t h = 0; h < n_heads; ++h) {
          attend(out.row<float>(n * n_heads + h), q.row<float>(n * n_heads + h), sink[h], visible,
                 head_dim);
        }
      }
    }
  });
}

}  // namespace ds4::reference
