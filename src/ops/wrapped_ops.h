#pragma once
// Ops that pass everything on to other Ops: what an observer derives from, to look at the few
// operations it cares about. Thread-compatible, like every Ops.
#include <memory>

#include "ops/ops.h"

namespace ds4 {

class WrappedOps : public Ops {
 public:
  explicit WrappedOps(std::unique_ptr<Ops> inner) : inner_(std::move(inner)) {}

 protected:
  Ops& inner() { return *inner_; }

 private:
  void do_reserve(const ModelConfig& config, int64_t max_rows) override;
  int64_t do_repack(std::span<const ConstTensor> weights, int64_t bytes_max) override;
  void do_embed(Tensor x, ConstTensor table, ConstTensor tokens) override;
  void do_broadcast_streams(Tensor streams, ConstTensor x) override;
  void do_add_to_streams(Tensor streams, ConstTensor x) override;
  void do_gather_rows(Tensor dst, ConstTensor src, std::span<const int64_t> rows) override;
  void do_hc_collapse(Tensor x, Tensor mix, ConstTensor streams, const HcWeights& w,
                      const HcParams& params) override;
  void do_hc_expand(Tensor streams, ConstTensor y, ConstTensor mix) override;
  void do_hc_head(Tensor x, ConstTensor streams, const HcWeights& w,
                  const HcParams& params) override;
  void do_rms_norm(Tensor out, ConstTensor x, ConstTensor weight, float eps) override;
  void do_linear(Tensor out, ConstTensor x, ConstTensor w) override;
  void do_grouped_linear(Tensor out, ConstTensor x, ConstTensor w, int64_t n_groups) override;
  void do_add(Tensor out, ConstTensor x) override;
  void do_rope_table(Tensor table, ConstTensor positions, std::span<const float> freqs) override;
  void do_rope(Tensor x, ConstTensor table, bool inverse) override;
  void do_round_kv(Tensor kv, int64_t rope_head_dim, const Precision& precision) override;
  void do_round_index(Tensor rows) override;
  void do_compress(std::span<const KvSpan> spans, ConstTensor kv, ConstTensor gate, ConstTensor ape,
                   ConstTensor norm, std::span<const float> rope_freqs,
                   const CompressParams& params) override;
  void do_index_topk(Tensor selected, ConstTensor q, ConstTensor weights, float scale,
                     std::span<const KvSpan> spans) override;
  void do_attention(Tensor out, ConstTensor q, ConstTensor kv, ConstTensor sinks,
                    ConstTensor selected, std::span<const KvSpan> spans,
                    const AttentionParams& params) override;
  void do_append_raw(std::span<const KvSpan> spans, ConstTensor kv) override;
  void do_route(Tensor ids, Tensor weights, ConstTensor logits, ConstTensor bias,
                float scale) override;
  void do_route_hashed(Tensor ids, Tensor weights, ConstTensor logits, ConstTensor tokens,
                       ConstTensor table, float scale) override;
  void do_experts_gate_up(Tensor mid, ConstTensor x, ConstTensor ids, ConstTensor weights,
                          ConstTensor gate, ConstTensor up, float limit) override;
  void do_experts_down(Tensor out, ConstTensor mid, ConstTensor ids, ConstTensor down) override;
  void do_swiglu(Tensor h, ConstTensor g, ConstTensor u, float limit) override;

  std::unique_ptr<Ops> inner_;
};

}  // namespace ds4
