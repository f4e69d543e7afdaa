#pragma once
// The backend for people without an accelerator: the ops of ops/ops.h with Highway kernels, chosen
// for the machine when the object is made (kernels/kernels.h).
//
// The same input gives the same bits on any number of threads, in any batch, however a prompt was
// cut, and on every instruction set with a fused multiply-add (kernels/targets.h). Work is split
// over output rows, or over queries and heads; a sum is never split.
//
// Weights in blocks (Q8_0, MXFP4, Q4_K, Q2_K, IQ2_XXS) meet activations rounded to int8, as the
// formats were designed for, unless CpuOptions says otherwise; F32, F16 and BF16 weights meet f32.
#include <algorithm>
#include <string_view>
#include <vector>

#include "backend/cpu/activations.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/top_rows.h"
#include "backend/host/host_ops.h"
#include "backend/host/scratch.h"

namespace ds4::cpu {

struct CpuOptions {
  // Integer dot products for weights in blocks. Off in the hf32 profile: such a weight row is then
  // decoded to f32 first, which is exact and several times slower.
  bool integer_activations = true;
};

// Weight rows that threads and copies take together: as many as the widest vectors have lanes.
inline constexpr int64_t kRowStep = 16;

// Whether Ops::repack() makes a copy of this weight: Q8_0 in whole groups of rows and columns.
bool is_repackable(ConstTensor w, const CpuOptions& options);

// The instruction set in use, for people: "AVX2", "AVX-512 VNNI". Thread-compatible.
std::string_view target_name();
// Whether that is one of those that only have to run: x86 without AVX2.
bool is_slow_target();

// Bytes of scratch that reserve() takes with that many threads.
int64_t scratch_bytes(const ModelConfig& config, int64_t max_rows, int n_threads,
                      const CpuOptions& options);

class CpuOps final : public HostOps {
 public:
  // `pool` must outlive this.
  explicit CpuOps(ThreadPool& pool, CpuOptions options = {});

 private:
  friend int64_t scratch_bytes(const ModelConfig& config, int64_t max_rows, int n_threads,
                               const CpuOptions& options);
  void do_reserve(const ModelConfig& config, int64_t max_rows) override;
  int64_t do_repack(std::span<const ConstTensor> weights, int64_t bytes_max) override;
  void do_hc_collapse(Tensor x, Tensor mix, ConstTensor streams, const HcWeights& w,
                      const HcParams& params) override;
  void do_hc_expand(Tensor streams, ConstTensor y, ConstTensor mix) override;
  void do_hc_head(Tensor x, ConstTensor streams, const HcWeights& w,
                  const HcParams& params) override;
  void do_rms_norm(Tensor out, ConstTensor x, ConstTensor weight, float eps) override;
  void do_rope(Tensor x, ConstTensor table, bool inverse) override;
  void do_compress(std::span<const KvSpan> spans, ConstTensor kv, ConstTensor gate, ConstTensor ape,
                   ConstTensor norm, std::span<const float> rope_freqs,
                   const CompressParams& params) override;
  void do_route(Tensor ids, Tensor weights, ConstTensor logits, ConstTensor bias,
                float scale) override;
  void do_route_hashed(Tensor ids, Tensor weights, ConstTensor logits, ConstTensor tokens,
                       ConstTensor table, float scale) override;
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
  void do_swiglu(Tensor h, ConstTensor g, ConstTensor u, float limit) override;

  // fn(begin, end) over parts of [0, n) on the pool's threads, or at once on this one when all of
  // it is less work (in multiply-adds, `work_each` a piece) than waking threads would take.
  template <typename Fn>
  void split(int64_t n, int64_t work_each, Fn&& fn) {
    constexpr int64_t kMinSplitWork = 65536;  // some 5 us of one thread
    if (n * work_each < kMinSplitWork) {
      if (n > 0) fn(int64_t{0}, n);
    } else {
      pool_.parallel_for(n, fn);
    }
  }

  // Weights as the kernels read them: where they stand, and in which form.
  struct Form {
    ConstTensor w;
    bool packed = false;
  };
  // The repacked copy of w, where there is one.
  Form form_of(ConstTensor w) const;

  // args.w . args.x for rows of `form` and activations in the form activation_form() gives.
  void dot(const Form& form, const DotArgs& args) const;
  // Rows [begin, end) of a projection: out row i of group g = w[rows of g] . activation row
  // i * n_groups + g.
  void project_rows(float* out, int64_t out_stride, const Form& form, int64_t n_groups,
                    int64_t begin, int64_t end) const;
  // mixes_[n, i] = fn[i] . streams[n], both hyper-connection mixes' linear part.
  void mix_streams(ConstTensor streams, ConstTensor fn);
  // Scores rows [begin, end) and keeps the best.
  void score_rows(TopRows& best, const IndexQuery& query, const PagedRows& rows, int64_t begin,
                  int64_t end) const;
  // The topk best of `visible` rows, found by all threads; `memory` as IndexPart.
  void choose_rows(int32_t* out, int64_t topk, const IndexQuery& query, const PagedRows& rows,
                   int64_t visible, std::byte* memory, int64_t part_bytes, int64_t n_heads);

  // fn(begin, end) as split(), but parts begin at multiples of kRowStep, so that groups of weight
  // rows stay whole.
  template <typename Fn>
  void split_rows(int64_t n, int64_t work_each, Fn&& fn) {
    split((n + kRowStep - 1) / kRowStep, kRowStep * work_each,
          [&](int64_t begin, int64_t end) { fn(begin * kRowStep, std::min(n, end * kRowStep)); });
  }

  const CpuOptions options_;
  const Kernels kernels_;

  struct Repacked {
    const std::byte* original = nullptr;
    Scratch copy;
  };
  std::vector<Repacked> repacked_;  // by address

  // Scratch, kept from op to op; grows only for a step larger than reserve() was told.
  Activations activations_;
  ExpertGroups groups_;
  Scratch mixes_memory_;
  float* mixes_ = nullptr;  // of the op in work
  Scratch index_memory_;    // for each thread: a query in lanes, and candidates
  Scratch tiles_;           // for each thread: a tile of decoded rows
};

}  // namespace ds4::cpu
