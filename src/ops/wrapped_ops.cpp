#include "ops/wrapped_ops.h"

namespace ds4 {

void WrappedOps::do_reserve(const ModelConfig& config, int64_t max_rows) {
  inner_->reserve(config, max_rows);
}

int64_t WrappedOps::do_repack(std::span<const ConstTensor> weights, int64_t bytes_max) {
  return inner_->repack(weights, bytes_max);
}

void WrappedOps::do_embed(Tensor x, ConstTensor table, ConstTensor tokens) {
  inner_->embed(x, table, tokens);
}

void WrappedOps::do_broadcast_streams(Tensor streams, ConstTensor x) {
  inner_->broadcast_streams(streams, x);
}

void WrappedOps::do_add_to_streams(Tensor streams, ConstTensor x) {
  inner_->add_to_streams(streams, x);
}

void WrappedOps::do_gather_rows(Tensor dst, ConstTensor src, std::span<const int64_t> rows) {
  inner_->gather_rows(dst, src, rows);
}

void WrappedOps::do_hc_collapse(Tensor x, Tensor mix, ConstTensor streams, const HcWeights& w,
                                const HcParams& params) {
  inner_->hc_collapse(x, mix, streams, w, params);
}

void WrappedOps::do_hc_expand(Tensor streams, ConstTensor y, ConstTensor mix) {
  inner_->hc_expand(streams, y, mix);
}

void WrappedOps::do_hc_head(Tensor x, ConstTensor streams, const HcWeights& w,
                            const HcParams& params) {
  inner_->hc_head(x, streams, w, params);
}

void WrappedOps::do_rms_norm(Tensor out, ConstTensor x, ConstTensor weight, float eps) {
  inner_->rms_norm(out, x, weight, eps);
}

void WrappedOps::do_linear(Tensor out, ConstTensor x, ConstTensor w) { inner_->linear(out, x, w); }

void WrappedOps::do_grouped_linear(Tensor out, ConstTensor x, ConstTensor w, int64_t n_groups) {
  inner_->grouped_linear(out, x, w, n_groups);
}

void WrappedOps::do_add(Tensor out, ConstTensor x) { inner_->add(out, x); }

void WrappedOps::do_rope_table(Tensor table, ConstTensor positions, std::span<const float> freqs) {
  inner_->rope_table(table, positions, freqs);
}

void WrappedOps::do_rope(Tensor x, ConstTensor table, bool inverse) {
  inner_->rope(x, table, inverse);
}

void WrappedOps::do_round_kv(Tensor kv, int64_t rope_head_dim, const Precision& precision) {
  inner_->round_kv(kv, rope_head_dim, precision);
}

// Called only where the profile rounds.
void WrappedOps::do_round_index(Tensor rows) { inner_->round_index(rows, Precision::official()); }

void WrappedOps::do_compress(std::span<const KvSpan> spans, ConstTensor kv, ConstTensor gate,
                             ConstTensor ape, ConstTensor norm, std::span<const float> rope_freqs,
                             const CompressParams& params) {
  inner_->compress(spans, kv, gate, ape, norm, rope_freqs, params);
}

void WrappedOps::do_index_topk(Tensor selected, ConstTensor q, ConstTensor weights, float scale,
                               std::span<const KvSpan> spans) {
  inner_->index_topk(selected, q, weights, scale, spans);
}

void WrappedOps::do_attention(Tensor out, ConstTensor q, ConstTensor kv, ConstTensor sinks,
                              ConstTensor selected, std::span<const KvSpan> spans,
                              const AttentionParams& params) {
  inner_->attention(out, q, kv, sinks, selected, spans, params);
}

void WrappedOps::do_append_raw(std::span<const KvSpan> spans, ConstTensor kv) {
  inner_->append_raw(spans, kv);
}

void WrappedOps::do_route(Tensor ids, Tensor weights, ConstTensor logits, ConstTensor bias,
                          float scale) {
  inner_->route(ids, weights, logits, bias, scale);
}

void WrappedOps::do_route_hashed(Tensor ids, Tensor weights, ConstTensor logits, ConstTensor tokens,
                                 ConstTensor table, float scale) {
  inner_->route_hashed(ids, weights, logits, tokens, table, scale);
}

void WrappedOps::do_experts_gate_up(Tensor mid, ConstTensor x, ConstTensor ids, ConstTensor weights,
                                    ConstTensor gate, ConstTensor up, float limit) {
  inner_->experts_gate_up(mid, x, ids, weights, gate, up, limit);
}

void WrappedOps::do_experts_down(Tensor out, ConstTensor mid, ConstTensor ids, ConstTensor down) {
  inner_->experts_down(out, mid, ids, down);
}

void WrappedOps::do_swiglu(Tensor h, ConstTensor g, ConstTensor u, float limit) {
  inner_->swiglu(h, g, u, limit);
}

}  // namespace ds4
