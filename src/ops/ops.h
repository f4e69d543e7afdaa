#pragma once
// What a device can compute: the operations of the layer walk (engine/forward.cpp).
//
// Each public method is the contract: what it computes, shapes, dtypes, the paper section or
// formula it comes from. It checks its arguments once (a wrong shape is a bug and stops the
// program) and calls the do_* method that a backend writes. Ops return nothing; a device fault is
// kept and returned by Device::synchronize().
//
// Conventions. N is the number of rows (tokens) of the step's batch. Activations are f32 with the
// last dimension contiguous; rows may be strided only where a contract says so. Weights are [out,
// in] in any dtype of dtype.h. Accumulation is f32 or wider. A row's result never depends on the
// other rows of the batch, on how a prompt was cut into chunks, or on the number of threads: same
// bits.
//
// Thread-compatible: one inference worker owns an Ops.
#include <cstdint>
#include <span>

#include "model/config.h"
#include "model/weights.h"
#include "ops/kv_view.h"
#include "ops/precision.h"
#include "tensor/tensor.h"

namespace ds4 {

// Constants of the hyper-connection ops.
struct HcParams {
  int64_t n_hc = 0;
  int64_t sinkhorn_iters = 0;
  float hc_eps = 0;
  float rms_eps = 0;
};

// Constants of a compressor.
struct CompressParams {
  int ratio = 0;  // 4 (overlapping windows) or 128
  float rms_eps = 0;
  bool index_rows = false;  // rows of the indexer: Hadamard + FP4 instead of FP8 + bf16
  Precision precision;
};

struct AttentionParams {
  int64_t window = 0;  // raw rows a query sees, itself included
  int ratio = 0;       // 0: no compressed rows
};

class Ops {
 public:
  virtual ~Ops() = default;

  // Takes the scratch memory of steps of up to `max_rows` rows of a model of this shape, so that
  // such steps allocate nothing. How much that is: backend_scratch_bytes() of backend/backend.h.
  void reserve(const ModelConfig& config, int64_t max_rows);

  // Makes copies of those of `weights` that this backend reads faster in another form, in the given
  // order, as long as all of them together take at most `bytes_max`; returns the bytes taken. Ops
  // that are given such a weight use its copy from then on, with the same results, bit for bit. To
  // be called once, before the first step; the weights must outlive this.
  int64_t repack(std::span<const ConstTensor> weights, int64_t bytes_max);

  // --- embedding and streams -------------------------------------------------------------------

  // x[n] = table[tokens[n]].  x [N, hidden] f32 · table [vocab, hidden] · tokens [N] i32 in range
  void embed(Tensor x, ConstTensor table, ConstTensor tokens);

  // streams[n, k] = x[n] for every k.  streams [N, n_hc, hidden] · x [N, hidden]
  void broadcast_streams(Tensor streams, ConstTensor x);

  // streams[n, k] += x[n] for every k.  streams [N, n_hc, hidden] · x [N, hidden]
  void add_to_streams(Tensor streams, ConstTensor x);

  // dst[m] = src[rows[m]], rows flattened to the last dimensions of src.
  //   dst [M, ...] f32 · src [N, ...] f32 · rows: M indices below N
  void gather_rows(Tensor dst, ConstTensor src, std::span<const int64_t> rows);

  // --- hyper-connections (paper section 2.2) -----------------------------------------------------

  // Collapses the streams into a sublayer's input and computes how its output will be spread:
  //   u = rms(flatten(streams[n])), m = fn u
  //   pre_j = sigmoid(m_j scale0 + base_j) + eps          j < n_hc
  //   post_j = 2 sigmoid(m_(n_hc+j) scale1 + base_(n_hc+j))
  //   comb = sinkhorn(m scale2 + base, entry (j, k) at 2 n_hc + n_hc j + k): softmax over k plus
  //   eps,
  //          column step, then (iters - 1) times row step and column step; it ends with a column
  //          step
  //   x[n] = sum_j pre_j streams[n, j]
  //   x [N, hidden] written · mix [N, n_hc + n_hc^2] written (post, then comb row-major)
  //   streams [N, n_hc, hidden] · w.fn [2 n_hc + n_hc^2, n_hc hidden], w.base [same rows], w.scale
  //   [3]
  void hc_collapse(Tensor x, Tensor mix, ConstTensor streams, const HcWeights& w,
                   const HcParams& params);

  // streams'[n, k] = post_k y[n] + sum_j comb[j, k] streams[n, j]; j is the old stream, k the new
  // one.
  //   streams [N, n_hc, hidden] read and written · y [N, hidden] · mix as hc_collapse wrote it
  void hc_expand(Tensor streams, ConstTensor y, ConstTensor mix);

  // x[n] = sum_j (sigmoid(m_j scale + base_j) + eps) streams[n, j], m = fn
  // rms(flatten(streams[n])).
  //   x [N, hidden] · streams [N, n_hc, hidden] · w.fn [n_hc, n_hc hidden], w.base [n_hc], w.scale
  //   [1]
  void hc_head(Tensor x, ConstTensor streams, const HcWeights& w, const HcParams& params);

  // --- dense -------------------------------------------------------------------------------------

  // out[r] = weight * x[r] / sqrt(mean(x[r]^2) + eps); an empty weight stands for ones.
  //   out, x [R, width] f32, may be the same · weight [width] f32 or empty
  void rms_norm(Tensor out, ConstTensor x, ConstTensor weight, float eps);

  // out[n] = w x[n].  out [N, out] f32 · x [N, in] f32 · w [out, in]
  void linear(Tensor out, ConstTensor x, ConstTensor w);

  // out[n, g] = w[g] x[n, g] for each group: the block-diagonal output projection (section 2.3.3).
  //   out [N, G R] f32 · x [N, G in] f32 · w [G R, in], rows g R .. g R + R - 1 belong to group g
  void grouped_linear(Tensor out, ConstTensor x, ConstTensor w, int64_t n_groups);

  // out[n] += x[n].  [N, width] f32
  void add(Tensor out, ConstTensor x);

  // --- rotary embedding --------------------------------------------------------------------------

  // table[n, i] = (cos, sin) of fl32(float(positions[n]) * freqs[i]), both rounded from f64.
  //   table [N, 2 n_pairs] f32 · positions [N] i64 · freqs [n_pairs] f32 in host memory
  void rope_table(Tensor table, ConstTensor positions, std::span<const float> freqs);

  // Rotates the last 2 n_pairs channels of each head, neighbouring channels as a pair; inverse
  // rotates by minus the angle.  x [N, n_heads, width] f32 in place · table [N, 2 n_pairs]
  void rope(Tensor x, ConstTensor table, bool inverse);

  // --- KV rows, compressor, indexer, attention ---------------------------------------------------

  // The roundings of a KV row before it is stored and read by anyone: FP8 in blocks of 64 over the
  // non-RoPE channels, bf16 over the last rope_head_dim.  kv [N, head_dim] f32 in place
  void round_kv(Tensor kv, int64_t rope_head_dim, const Precision& precision);

  // Hadamard transform, then FP4 in blocks of 32, of each 128-wide row; nothing in the hf32
  // profile.
  //   rows [R, 128] f32 in place
  void round_index(Tensor rows, const Precision& precision);

  // Feeds the rows of each span to a compressor (sections 2.3.1, 2.3.2): score = gate + ape[pos mod
  // ratio] enters the frontier with kv; each completed window is pooled per channel by the softmax
  // of its scores, normalised, rotated at the window's first position, rounded, and appended as
  // compressed row (pos + 1) / ratio - 1.
  //   kv, gate [N, w] f32 · ape [ratio, w] · norm [h] f32 · rope_freqs in host memory
  //   writes span.kv.attn or, with params.index_rows, span.kv.index: rows and frontiers
  //   w = 2h at ratio 4 (columns [0, h) feed the next window, [h, 2h) their own), h at ratio 128
  void compress(std::span<const KvSpan> spans, ConstTensor kv, ConstTensor gate, ConstTensor ape,
                ConstTensor norm, std::span<const float> rope_freqs, const CompressParams& params);

  // The lightning indexer's choice for each query (section 2.3.1, eqs. 13-17). With n = floor((pos
  // + 1) / 4) visible rows: all of them if n <= topk, else the topk largest of
  //   S_c = sum_h scale * weights[h] * relu(q[h] . index row c)
  // where equal scores (the two zeros are equal) prefer the smaller c and NaN counts as -inf.
  //   selected [N, topk] i32 written: ascending rows, then -1
  //   q [N, n_heads, 128] f32, rounded like the rows · weights [N, n_heads] f32 · rows of
  //   span.kv.index
  void index_topk(Tensor selected, ConstTensor q, ConstTensor weights, float scale,
                  std::span<const KvSpan> spans);

  // Attention of each query over its raw window, its compressed rows and the sink (section 2.3.3):
  //   s_i = (q . k_i) / sqrt(head_dim); out = sum_i exp(s_i - M) k_i / (exp(sink - M) + sum_i ...)
  // Rows are keys and values at once and shared by all heads. Canonical order of the sums: raw rows
  // by position, compressed rows by index, sink. Raw rows at positions before the span come from
  // the ring, those of the span from kv.
  //   out, q [N, n_heads, head_dim] f32 · kv [N, head_dim] f32, rounded · sinks [n_heads] f32
  //   selected [N, topk] i32 as index_topk writes it; empty: every visible compressed row
  void attention(Tensor out, ConstTensor q, ConstTensor kv, ConstTensor sinks, ConstTensor selected,
                 std::span<const KvSpan> spans, const AttentionParams& params);

  // Copies the last min(n_rows, ring rows) rows of each span into its ring; after attention.
  //   kv [N, head_dim] f32, rounded
  void append_raw(std::span<const KvSpan> spans, ConstTensor kv);

  // --- mixture of experts (section 2.1) ----------------------------------------------------------

  // s_e = sqrt(softplus(logits_e)); the k largest of s_e + bias_e (ties: smaller id), weighted
  // w_i = scale s_i / max(sum_j s_j, 2^-14) without the bias. Ids are written in ascending order,
  // which is the order in which experts are summed.
  //   ids [N, k] i32, weights [N, k] f32 written · logits [N, E] f32 · bias [E] f32
  void route(Tensor ids, Tensor weights, ConstTensor logits, ConstTensor bias, float scale);

  // The same with ids = table[tokens[n]]: hash layers.  tokens [N] i32 · table [vocab, k] i32
  void route_hashed(Tensor ids, Tensor weights, ConstTensor logits, ConstTensor tokens,
                    ConstTensor table, float scale);

  // mid[n, i] = weights[n, i] * swiglu(gate[e] x[n], up[e] x[n]), e = ids[n, i].
  //   mid [N, k, F] f32 written · x [N, hidden] f32 · gate, up [E, F, hidden]
  void experts_gate_up(Tensor mid, ConstTensor x, ConstTensor ids, ConstTensor weights,
                       ConstTensor gate, ConstTensor up, float limit);

  // out[n] = sum_i down[ids[n, i]] mid[n, i], in slot order.
  //   out [N, hidden] f32 written · mid [N, k, F] f32 · ids [N, k] i32, ascending in a row ·
  //   down [E, hidden, F]
  void experts_down(Tensor out, ConstTensor mid, ConstTensor ids, ConstTensor down);

  // h = silu(min(g, limit)) * clamp(u, -limit, limit).  h, g, u [N, F] f32; h may be g
  void swiglu(Tensor h, ConstTensor g, ConstTensor u, float limit);

 private:
  virtual void do_reserve(const ModelConfig& config, int64_t max_rows) = 0;
  virtual int64_t do_repack(std::span<const ConstTensor> weights, int64_t bytes_max);
  virtual void do_embed(Tensor x, ConstTensor table, ConstTensor tokens) = 0;
  virtual void do_broadcast_streams(Tensor streams, ConstTensor x) = 0;
  virtual void do_add_to_streams(Tensor streams, ConstTensor x) = 0;
  virtual void do_gather_rows(Tensor dst, ConstTensor src, std::span<const int64_t> rows) = 0;
  virtual void do_hc_collapse(Tensor x, Tensor mix, ConstTensor streams, const HcWeights& w,
                              const HcParams& params) = 0;
  virtual void do_hc_expand(Tensor streams, ConstTensor y, ConstTensor mix) = 0;
  virtual void do_hc_head(Tensor x, ConstTensor streams, const HcWeights& w,
                          const HcParams& params) = 0;
  virtual void do_rms_norm(Tensor out, ConstTensor x, ConstTensor weight, float eps) = 0;
  virtual void do_linear(Tensor out, ConstTensor x, ConstTensor w) = 0;
  virtual void do_grouped_linear(Tensor out, ConstTensor x, ConstTensor w, int64_t n_groups) = 0;
  virtual void do_add(Tensor out, ConstTensor x) = 0;
  virtual void do_rope_table(Tensor table, ConstTensor positions, std::span<const float> freqs) = 0;
  virtual void do_rope(Tensor x, ConstTensor table, bool inverse) = 0;
  virtual void do_round_kv(Tensor kv, int64_t rope_head_dim, const Precision& precision) = 0;
  virtual void do_round_index(Tensor rows) = 0;
  virtual void do_compress(std::span<const KvSpan> spans, ConstTensor kv, ConstTensor gate,
                           ConstTensor ape, ConstTensor norm, std::span<const float> rope_freqs,
                           const CompressParams& params) = 0;
  virtual void do_index_topk(Tensor selected, ConstTensor q, ConstTensor weights, float scale,
                             std::span<const KvSpan> spans) = 0;
  virtual void do_attention(Tensor out, ConstTensor q, ConstTensor kv, ConstTensor sinks,
                            ConstTensor selected, std::span<const KvSpan> spans,
                            const AttentionParams& params) = 0;
  virtual void do_append_raw(std::span<const KvSpan> spans, ConstTensor kv) = 0;
  virtual void do_route(Tensor ids, Tensor weights, ConstTensor logits, ConstTensor bias,
                        float scale) = 0;
  virtual void do_route_hashed(Tensor ids, Tensor weights, ConstTensor logits, ConstTensor tokens,
                               ConstTensor table, float scale) = 0;
  virtual void do_experts_gate_up(Tensor mid, ConstTensor x, ConstTensor ids, ConstTensor weights,
                                  ConstTensor gate, ConstTensor up, float limit) = 0;
  virtual void do_experts_down(Tensor out, ConstTensor mid, ConstTensor ids, ConstTensor down) = 0;
  virtual void do_swiglu(Tensor h, ConstTensor g, ConstTensor u, float limit) = 0;
};

}  // namespace ds4
