#pragma once
// The oracle: every op of the walk as plain f32 loops that follow the formulas of ops/ops.h, with
// rows split over threads and nothing else done for speed. Other backends are compared with it; it
// is itself compared with an independent implementation's logits
// (tests/engine/reference_logits_test.cpp).
#include "backend/host/host_ops.h"
#include "backend/host/scratch.h"

namespace ds4::reference {

// Bytes of scratch that reserve() takes with that many threads.
int64_t scratch_bytes(const ModelConfig& config, int64_t max_rows, int n_threads);

class ReferenceOps final : public HostOps {
 public:
  using HostOps::HostOps;

 private:
  void do_reserve(const ModelConfig& config, int64_t max_rows) override;
  void do_hc_collapse(Tensor x, Tensor mix, ConstTensor streams, const HcWeights& w,
                      const HcParams& params) override;
  void do_hc_expand(Tensor streams, ConstTensor y, ConstTensor mix) override;
  void do_hc_head(Tensor x, ConstTensor streams, const HcWeights& w,
                  const HcParams& params) override;
  void do_linear(Tensor out, ConstTensor x, ConstTensor w) override;
  void do_grouped_linear(Tensor out, ConstTensor x, ConstTensor w, int64_t n_groups) override;
  void do_index_topk(Tensor selected, ConstTensor q, ConstTensor weights, float scale,
                     std::span<const KvSpan> spans) override;
  void do_attention(Tensor out, ConstTensor q, ConstTensor kv, ConstTensor sinks,
                    ConstTensor selected, std::span<const KvSpan> spans,
                    const AttentionParams& params) override;
  void do_experts_gate_up(Tensor mid, ConstTensor x, ConstTensor ids, ConstTensor weights,
                          ConstTensor gate, ConstTensor up, float limit) override;
  void do_experts_down(Tensor out, ConstTensor mid, ConstTensor ids, ConstTensor down) override;

  ExpertGroups groups_;
  Scratch decoded_;     // a small matrix in f32, for ops that need all its rows at once
  Scratch candidates_;  // index rows in sight, for each thread
  Scratch attended_;    // rows a query attends to and their scores, for each thread
};

}  // namespace ds4::reference
