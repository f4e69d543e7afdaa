#pragma once
// What the host backends (reference, cpu) have in common: ops that move, round or choose values one
// row at a time and hold no long sum, so that there is one right way to write them. The arithmetic
// that a backend is about (projections, attention, experts, hyper-connections) is in the siblings.
#include <vector>

#include "base/thread_pool.h"
#include "ops/ops.h"

namespace ds4 {

// The (row, slot) pairs of a step, sorted by expert: pairs [begin[e], begin[e + 1]) belong to
// expert e, in ascending row, then slot. Reuses its memory from step to step.
class ExpertGroups {
 public:
  // Makes room for as many experts and pairs.
  void reserve(int64_t n_experts, int64_t n_pairs);
  static int64_t bytes_needed(int64_t n_experts, int64_t n_pairs) {
    return (2 * n_experts + 1 + n_pairs) * static_cast<int64_t>(sizeof(int32_t));
  }

  // ids [N, k] i32, each in [0, n_experts).
  void assign(ConstTensor ids, int64_t n_experts);

  int64_t n_experts() const { return static_cast<int64_t>(begin_.size()) - 1; }
  // Flat indices row * k + slot.
  std::span<const int32_t> pairs_of(int64_t expert) const;
  // Experts with at least one pair, ascending.
  std::span<const int32_t> active() const { return active_; }

 private:
  std::vector<int32_t> begin_;
  std::vector<int32_t> pairs_;
  std::vector<int32_t> active_;
};

class HostOps : public Ops {
 public:
  // `pool` must outlive this.
  explicit HostOps(ThreadPool& pool) : pool_(pool) {}

 protected:
  ThreadPool& pool_;

  void do_compress(std::span<const KvSpan> spans, ConstTensor kv, ConstTensor gate, ConstTensor ape,
                   ConstTensor norm, std::span<const float> rope_freqs,
                   const CompressParams& params) override;

 private:
  void do_embed(Tensor x, ConstTensor table, ConstTensor tokens) override;
  void do_broadcast_streams(Tensor streams, ConstTensor x) override;
  void do_add_to_streams(Tensor streams, ConstTensor x) override;
  void do_gather_rows(Tensor dst, ConstTensor src, std::span<const int64_t> rows) override;
  void do_rms_norm(Tensor out, ConstTensor x, ConstTensor weight, float eps) override;
  void do_add(Tensor out, ConstTensor x) override;
  void do_rope_table(Tensor table, ConstTensor positions, std::span<const float> freqs) override;
  void do_rope(Tensor x, ConstTensor table, bool inverse) override;
  void do_round_kv(Tensor kv, int64_t rope_head_dim, const Precision& precision) override;
  void do_round_index(Tensor rows) override;
  void do_append_raw(std::span<const KvSpan> spans, ConstTensor kv) override;
  void do_route(Tensor ids, Tensor weights, ConstTensor logits, ConstTensor bias,
                float scale) override;
  void do_route_hashed(Tensor ids, Tensor weights, ConstTensor logits, ConstTensor tokens,
                       ConstTensor table, float scale) override;
  void do_swiglu(Tensor h, ConstTensor g, ConstTensor u, float limit) override;
};

// 1 / sqrt(mean(x^2) + eps), the sum in f64 and in index order.
float inverse_rms(const float* x, int64_t n, float eps);

// (cos, sin) of fl32(float(pos) * freq), computed in f64: angles reach 1e6 rad, where f32 argument
// reduction is worthless (docs/model.md, "RoPE").
void rope_cos_sin(int64_t pos, float freq, float* cos_out, float* sin_out);

// Rotates neighbouring pairs of the last 2 n_pairs of `width` channels; `table` holds (cos, sin).
void rotate_tail(float* head, int64_t width, const float* table, int64_t n_pairs, bool inverse);

// silu(min(g, limit)) * clamp(u, -limit, limit) (docs/model.md, "Experts").
float swiglu_value(float g, float u, float limit);

// The roundings of one KV row [head_dim] (Ops::round_kv).
void round_kv_row(float* row, int64_t head_dim, int64_t rope_head_dim, const Precision& precision);

// Writes a rounded row in the form it is kept in; nothing is lost.
void store_kv_row(std::byte* dst, RowFormat format, const float* row, int64_t width);

}  // namespace ds4
