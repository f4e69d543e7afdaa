#pragma once
// Ops that count and time the ops behind them: calls, seconds, and the bytes of the tensors an op
// was given, by name of the op and phase of the work; and who show which experts were chosen.
// Results are those of the wrapped Ops, bit for bit, and the walk does not know.
//
// Thread-compatible, like every Ops.
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/ops.h"

namespace ds4 {

// One line of a profile.
struct OpUse {
  std::string_view name;  // as in ops.h
  int64_t calls = 0;
  double seconds = 0;
  // Weights and activations that the op's arguments cover; for experts the stacks' share of the
  // slots in use, as if each slot read its expert once. 0 for ops that only walk over the cache.
  int64_t bytes = 0;
};

class TraceOps final : public Ops {
 public:
  enum class Phase { kPrefill, kDecode };

  explicit TraceOps(std::unique_ptr<Ops> inner);

  // What the ops from now on belong to; prefill at first.
  void set_phase(Phase phase) { phase_ = phase; }
  // Called with the expert ids [N, k] i32 of every routing, as the device holds them. Untimed.
  void set_route_observer(std::function<void(ConstTensor ids)> observer) {
    route_observer_ = std::move(observer);
  }
  // Uses of one phase, longest first; ops that were never called are left out.
  std::vector<OpUse> profile(Phase phase) const;

 private:
  enum Op : int;
  class Timer;
  static constexpr int kMaxOps = 32;

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
  Phase phase_ = Phase::kPrefill;
  std::function<void(ConstTensor ids)> route_observer_;
  std::array<std::array<OpUse, kMaxOps>, 2> uses_{};  // [phase][op]
};

// The table of one phase for people, a line an op: "linear  1234 calls  12.3 ms  45.6 %  3.4 GB/s".
std::string profile_table(const std::vector<OpUse>& uses);

}  // namespace ds4
