// The checked half of every op: shapes and dtypes as the header promises, then the backend.
#include "ops/ops.h"

namespace ds4 {
namespace {

void check_f32(const ConstTensor& t, const Shape& shape) {
  DS4_CHECK(t.dtype() == DType::kF32 && t.shape() == shape);
}

void check_i32(const ConstTensor& t, const Shape& shape) {
  DS4_CHECK(t.dtype() == DType::kI32 && t.shape() == shape);
}

// Spans cover the rows of the batch in order, without gaps.
void check_spans(std::span<const KvSpan> spans, int64_t n_rows) {
  int64_t row = 0;
  for (const KvSpan& span : spans) {
    DS4_CHECK(span.first_row == row && span.n_rows >= 1 && span.first_pos >= 0);
    row += span.n_rows;
  }
  DS4_CHECK(row == n_rows);
}

void check_ring(const RingRows& ring, int64_t width) {
  DS4_CHECK(ring.row_bytes == kv_row_bytes(ring.format, width) && ring.n_rows >= 1);
}

}  // namespace

int64_t Ops::repack(std::span<const ConstTensor> weights, int64_t bytes_max) {
  return do_repack(weights, bytes_max);
}

int64_t Ops::do_repack(std::span<const ConstTensor>, int64_t) { return 0; }

void Ops::reserve(const ModelConfig& config, int64_t max_rows) {
  DS4_CHECK(max_rows >= 1);
  do_reserve(config, max_rows);
}

void Ops::embed(Tensor x, ConstTensor table, ConstTensor tokens) {
  check_f32(x, {tokens.dim(0), table.dim(1)});
  check_i32(tokens, {x.dim(0)});
  do_embed(x, table, tokens);
}

void Ops::broadcast_streams(Tensor streams, ConstTensor x) {
  check_f32(streams, {x.dim(0), streams.dim(1), x.dim(1)});
  do_broadcast_streams(streams, x);
}

void Ops::add_to_streams(Tensor streams, ConstTensor x) {
  check_f32(streams, {x.dim(0), streams.dim(1), x.dim(1)});
  do_add_to_streams(streams, x);
}

void Ops::gather_rows(Tensor dst, ConstTensor src, std::span<const int64_t> rows) {
  DS4_CHECK(dst.dim(0) == static_cast<int64_t>(rows.size()) && dst.rank() == src.rank());
  for (int i = 1; i < dst.rank(); ++i) DS4_CHECK(dst.dim(i) == src.dim(i));
  for (int64_t row : rows) DS4_CHECK(row >= 0 && row < src.dim(0));
  DS4_CHECK(dst.contiguous() && src.contiguous());
  do_gather_rows(dst, src, rows);
}

void Ops::hc_collapse(Tensor x, Tensor mix, ConstTensor streams, const HcWeights& w,
                      const HcParams& params) {
  const int64_t n = streams.dim(0), k = params.n_hc, hidden = streams.dim(2);
  const int64_t mix_rows = 2 * k + k * k;
  check_f32(streams, {n, k, hidden});
  check_f32(x, {n, hidden});
  check_f32(mix, {n, k + k * k});
  DS4_CHECK(w.fn.shape() == (Shape{mix_rows, k * hidden}) && streams.contiguous());
  check_f32(w.base, {mix_rows});
  check_f32(w.scale, {3});
  do_hc_collapse(x, mix, streams, w, params);
}

void Ops::hc_expand(Tensor streams, ConstTensor y, ConstTensor mix) {
  const int64_t n = streams.dim(0), k = streams.dim(1);
  check_f32(streams, {n, k, y.dim(1)});
  check_f32(y, {n, y.dim(1)});
  check_f32(mix, {n, k + k * k});
  do_hc_expand(streams, y, mix);
}

void Ops::hc_head(Tensor x, ConstTensor streams, const HcWeights& w, const HcParams& params) {
  const int64_t n = streams.dim(0), k = params.n_hc, hidden = streams.dim(2);
  check_f32(streams, {n, k, hidden});
  check_f32(x, {n, hidden});
  DS4_CHECK(w.fn.shape() == (Shape{k, k * hidden}) && streams.contiguous());
  check_f32(w.base, {k});
  check_f32(w.scale, {1});
  do_hc_head(x, streams, w, params);
}

void Ops::rms_norm(Tensor out, ConstTensor x, ConstTensor weight, float eps) {
  DS4_CHECK(x.rank() == 2);
  check_f32(x, x.shape());
  check_f32(out, x.shape());
  if (!weight.empty()) check_f32(weight, {x.n_cols()});
  do_rms_norm(out, x, weight, eps);
}

void Ops::linear(Tensor out, ConstTensor x, ConstTensor w) {
  check_f32(x, {x.dim(0), w.dim(1)});
  check_f32(out, {x.dim(0), w.dim(0)});
  DS4_CHECK(w.rank() == 2 && w.contiguous());
  do_linear(out, x, w);
}

void Ops::grouped_linear(Tensor out, ConstTensor x, ConstTensor w, int64_t n_groups) {
  check_f32(x, {x.dim(0), n_groups * w.dim(1)});
  check_f32(out, {x.dim(0), w.dim(0)});
  DS4_CHECK(w.rank() == 2 && w.contiguous() && w.dim(0) % n_groups == 0);
  do_grouped_linear(out, x, w, n_groups);
}

void Ops::add(Tensor out, ConstTensor x) {
  check_f32(x, x.shape());
  check_f32(out, x.shape());
  do_add(out, x);
}

void Ops::rope_table(Tensor table, ConstTensor positions, std::span<const float> freqs) {
  DS4_CHECK(positions.dtype() == DType::kI64 && positions.rank() == 1);
  check_f32(table, {positions.dim(0), 2 * static_cast<int64_t>(freqs.size())});
  do_rope_table(table, positions, freqs);
}

void Ops::rope(Tensor x, ConstTensor table, bool inverse) {
  DS4_CHECK(x.rank() == 3 && x.dim(2) >= table.dim(1));
  check_f32(x, x.shape());
  check_f32(table, {x.dim(0), table.dim(1)});
  do_rope(x, table, inverse);
}

void Ops::round_kv(Tensor kv, int64_t rope_head_dim, const Precision& precision) {
  DS4_CHECK(kv.rank() == 2 && (kv.dim(1) - rope_head_dim) % 64 == 0);
  check_f32(kv, kv.shape());
  do_round_kv(kv, rope_head_dim, precision);
}

void Ops::round_index(Tensor rows, const Precision& precision) {
  check_f32(rows, {rows.dim(0), 128});
  if (precision.index_fp4) do_round_index(rows);
}

void Ops::compress(std::span<const KvSpan> spans, ConstTensor kv, ConstTensor gate, ConstTensor ape,
                   ConstTensor norm, std::span<const float> rope_freqs,
                   const CompressParams& params) {
  const int64_t h = norm.dim(0), w = params.ratio == 4 ? 2 * h : h;
  DS4_CHECK(params.ratio == 4 || params.ratio == 128);
  check_f32(kv, {kv.dim(0), w});
  check_f32(gate, kv.shape());
  check_f32(norm, {h});
  DS4_CHECK(ape.shape() == (Shape{params.ratio, w}));
  check_spans(spans, kv.dim(0));
  const Shape frontier{params.ratio == 4 ? 8 : params.ratio, w};
  for (const KvSpan& span : spans) {
    const CompressedKv& state = params.index_rows ? span.kv.index : span.kv.attn;
    check_f32(state.frontier_kv, frontier);
    check_f32(state.frontier_score, frontier);
  }
  do_compress(spans, kv, gate, ape, norm, rope_freqs, params);
}

void Ops::index_topk(Tensor selected, ConstTensor q, ConstTensor weights, float scale,
                     std::span<const KvSpan> spans) {
  const int64_t n = q.dim(0);
  check_f32(q, {n, q.dim(1), 128});
  check_f32(weights, {n, q.dim(1)});
  check_i32(selected, {n, selected.dim(1)});
  check_spans(spans, n);
  do_index_topk(selected, q, weights, scale, spans);
}

void Ops::attention(Tensor out, ConstTensor q, ConstTensor kv, ConstTensor sinks,
                    ConstTensor selected, std::span<const KvSpan> spans,
                    const AttentionParams& params) {
  const int64_t n = q.dim(0);
  check_f32(q, {n, q.dim(1), kv.dim(1)});
  check_f32(out, q.shape());
  check_f32(kv, {n, kv.dim(1)});
  check_f32(sinks, {q.dim(1)});
  if (!selected.empty()) check_i32(selected, {n, selected.dim(1)});
  check_spans(spans, n);
  for (const KvSpan& span : spans) {
    check_ring(span.kv.ring, kv.dim(1));
    DS4_CHECK(span.kv.ring.n_rows >= params.window);
  }
  do_attention(out, q, kv, sinks, selected, spans, params);
}

void Ops::append_raw(std::span<const KvSpan> spans, ConstTensor kv) {
  check_f32(kv, kv.shape());
  check_spans(spans, kv.dim(0));
  for (const KvSpan& span : spans) check_ring(span.kv.ring, kv.dim(1));
  do_append_raw(spans, kv);
}

void Ops::route(Tensor ids, Tensor weights, ConstTensor logits, ConstTensor bias, float scale) {
  check_i32(ids, {logits.dim(0), ids.dim(1)});
  check_f32(weights, ids.shape());
  check_f32(logits, {ids.dim(0), bias.dim(0)});
  DS4_CHECK(ids.dim(1) <= logits.dim(1));
  do_route(ids, weights, logits, bias, scale);
}

void Ops::route_hashed(Tensor ids, Tensor weights, ConstTensor logits, ConstTensor tokens,
                       ConstTensor table, float scale) {
  check_i32(ids, {logits.dim(0), table.dim(1)});
  check_f32(weights, ids.shape());
  check_i32(tokens, {ids.dim(0)});
  DS4_CHECK(table.dtype() == DType::kI32);
  do_route_hashed(ids, weights, logits, tokens, table, scale);
}

void Ops::experts_gate_up(Tensor mid, ConstTensor x, ConstTensor ids, ConstTensor weights,
                          ConstTensor gate, ConstTensor up, float limit) {
  check_f32(mid, {x.dim(0), ids.dim(1), gate.dim(1)});
  check_f32(x, {x.dim(0), gate.dim(2)});
  check_i32(ids, {x.dim(0), ids.dim(1)});
  check_f32(weights, ids.shape());
  DS4_CHECK(gate.shape() == up.shape() && gate.dtype() == up.dtype());
  do_experts_gate_up(mid, x, ids, weights, gate, up, limit);
}

void Ops::experts_down(Tensor out, ConstTensor mid, ConstTensor ids, ConstTensor down) {
  check_f32(mid, {out.dim(0), ids.dim(1), down.dim(2)});
  check_f32(out, {out.dim(0), down.dim(1)});
  check_i32(ids, {out.dim(0), ids.dim(1)});
  do_experts_down(out, mid, ids, down);
}

void Ops::swiglu(Tensor h, ConstTensor g, ConstTensor u, float limit) {
  check_f32(g, g.shape());
  check_f32(h, g.shape());
  check_f32(u, g.shape());
  do_swiglu(h, g, u, limit);
}

}  // namespace ds4
