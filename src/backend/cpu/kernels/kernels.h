#pragma once
// The inner loops of the cpu backend as function pointers, chosen once for the machine. A kernel is
// single-threaded, allocates nothing and sees plain pointers; the ops around it split the work.
//
// Each has one order of additions that does not depend on the vector width, on how many rows a call
// brings, or on where a range was cut (targets.h tells which targets agree bit for bit).
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "backend/cpu/activation_group.h"
#include "tensor/dtype.h"

namespace ds4::cpu {

// Most activation rows of one DotArgs; what a weight row is decoded for once.
inline constexpr int64_t kMaxDotRows = 64;

// out[i * out_stride + j] = w[j] . x[i] for every weight row j < n_w and activation row i < n_x.
struct DotArgs {
  const std::byte* w = nullptr;  // weight row 0
  int64_t w_stride = 0;          // bytes between weight rows
  int64_t n_w = 0;
  int64_t cols = 0;
  const void* const* x = nullptr;  // n_x rows, in the form the kernel takes
  int64_t n_x = 0;                 // at most kMaxDotRows
  float* out = nullptr;
  int64_t out_stride = 0;  // floats between the results of two activation rows
  // As many weight rows that will be read next, to be fetched meanwhile; null: not known.
  const std::byte* next = nullptr;
};
using DotFn = void (*)(const DotArgs& args);

// Adds a tile of key/value rows to the running softmax of some heads of one query:
//   max' = max(max, s_i); out, sum scaled by exp(max - max'); e_i = exp(s_i - max');
//   sum += sum_i e_i; out += e_i rows_i for each row, in order;   s_i = scale * (q . rows_i)
// A head's bits depend on its own q, on the rows and on how they are cut into tiles, not on how
// many heads a call brings.
struct AttendArgs {
  const float* q = nullptr;            // [n_heads, head_dim]
  const float* const* rows = nullptr;  // n_rows rows of head_dim
  int64_t n_rows = 0;                  // at most kAttendTile
  int64_t n_heads = 0;                 // at most kMaxHeads
  int64_t head_dim = 0;                // a multiple of 64
  float scale = 0;
  float* max = nullptr;  // [n_heads]
  float* sum = nullptr;  // [n_heads]
  float* out = nullptr;  // [n_heads, head_dim]
};
inline constexpr int64_t kAttendTile = 32;
inline constexpr int64_t kMaxHeads = 128;  // Pro's

// The queries of one position, for index_scores_*: heads stand in lanes, in groups of kIndexLanes
// of which the last is filled up with heads that weigh nothing.
//
//   f32    values  [128][padded heads] f32
//   FP4    codes   [32][padded heads][4] int8: doubled E2M1 codes, in the order in which a row's
//                  codes are unpacked; scales [4][padded heads] f32: block scale / 4; starts
//                  [4][padded heads] i32: -kIndexBias times the sum of the block's codes
struct IndexQuery {
  int64_t n_groups = 0;
  float* weights = nullptr;  // [padded heads]
  float* values = nullptr;
  int8_t* codes = nullptr;
  float* scales = nullptr;
  int32_t* starts = nullptr;
  bool plain = false;  // FP4: the exponents of all scales are within +-kIndexPlainExponent
};
inline constexpr int64_t kIndexLanes = 16;
inline constexpr int64_t kIndexDim = 128;
inline constexpr int32_t kIndexBias = 12;  // makes a row's doubled codes unsigned
// Exponents of two scales whose product f32 has for sure; others take a slower way to it.
inline constexpr int32_t kIndexPlainExponent = 60;

// scores[c] = sum_h weights[h] * max(0, q[h] . rows[c]), a NaN product counting as 0. Each product
// is the sum of four sums over 32 values, added in order; heads are added by lane, then lanes
// pairwise. For rows that FP4 holds exactly both forms give the same bits: their sums over 32
// values are exact.
struct IndexScoreArgs {
  const IndexQuery* query = nullptr;
  const std::byte* rows = nullptr;  // n_rows of f32 [128], or PackedIndexRow
  int64_t n_rows = 0;
  float* scores = nullptr;
};

// The entries of a compressor's window: what is pooled is kv[i], its score gate[i] + bias[i].
struct PoolArgs {
  const float* kv[128];
  const float* gate[128];
  const std::byte* bias[128];  // f32 or f16
  int n = 0;
};

// The mixes of one row of four streams, and what turns them into weights (HcWeights, HcParams).
struct SplitArgs {
  const float* mixes = nullptr;  // [24], not scaled yet
  float inverse_rms = 0;
  const float* base = nullptr;   // [24]
  const float* scale = nullptr;  // [3]
  int64_t sinkhorn_iters = 0;
  float eps = 0;
};

struct Kernels {
  std::string_view target;   // for people: "AVX-512 VNNI"
  bool slow_target = false;  // x86 without AVX2: runs, and no kernel was made for it

  DotFn dot_f32 = nullptr;  // f32 activations
  DotFn dot_f16 = nullptr;
  DotFn dot_bf16 = nullptr;
  DotFn dot_q8_0 = nullptr;  // A8 activations
  DotFn dot_mxfp4 = nullptr;
  DotFn dot_q4_k = nullptr;  // Q8_K activations
  DotFn dot_q2_k = nullptr;
  DotFn dot_iq2_xxs = nullptr;

  // Q8_0 rows repacked in groups of `group_rows`, with the same number of bytes: the same products
  // from weights that are read in order. n_rows is a multiple of group_rows, cols one of 256, `out`
  // aligned to 64; a DotArgs begins at the first row of a group and covers whole groups.
  int64_t group_rows = 0;
  void (*pack_q8_0)(std::byte* out, const std::byte* w, int64_t n_rows, int64_t cols) = nullptr;
  DotFn dot_packed_q8_0 = nullptr;
  // What dot_packed_q8_0 is chosen from, for tests: without and with asking for weights ahead.
  DotFn dot_packed_q8_0_forms[2] = {};

  // Activations to int8: n_blocks A8 blocks of 32 (the rest of the group is left as it is), or one
  // Q8_K record of 256.
  void (*round_a8)(const float* x, int64_t n_blocks, ActivationGroup* group) = nullptr;
  void (*round_q8_k)(const float* x, ActivationGroup* group) = nullptr;

  // out [width] = the values of a packed KV row (quant/packed_kv.h), bit for bit.
  void (*unpack_kv)(float* out, const std::byte* row, int64_t width) = nullptr;
  void (*attend)(const AttendArgs& args) = nullptr;
  // out /= sum + exp(sink - max) for each head.  sinks [n_heads]; the rest as attend() left it
  void (*finish_attention)(const AttendArgs& args, const float* sinks) = nullptr;

  void (*index_scores_f32)(const IndexScoreArgs& args) = nullptr;
  void (*index_scores_fp4)(const IndexScoreArgs& args) = nullptr;
  // Writes the indices of the scores above `bar`, ascending, and returns how many there are.
  int64_t (*scores_above)(int32_t* found, const float* scores, int64_t n, float bar) = nullptr;

  // y[i] = exp(x[i]), for tests: what attention uses (kernels/exp-inl.h).
  void (*exp)(float* y, const float* x, int64_t n) = nullptr;

  // out[i] = scale * silu(min(g[i], limit)) * clamp(u[i], -limit, limit); out may be g.
  void (*swiglu)(float* out, const float* g, const float* u, float scale, float limit,
                 int64_t n) = nullptr;

  // Rows of n values (kernels/row_ops.cpp). `out` may be an input.
  float (*inverse_rms)(const float* x, int64_t n, float eps) = nullptr;
  // out = x / rms(x), times weight unless that is null
  void (*rms_norm)(float* out, const float* x, const float* weight, int64_t n, float eps) = nullptr;
  // Rotates neighbouring pairs; table holds (cos, sin).
  void (*rotate)(float* x, const float* table, int64_t n_pairs, bool inverse) = nullptr;
  // sqrt(softplus(logit))
  void (*router_scores)(float* scores, const float* logits, int64_t n) = nullptr;
  // out = softmax-weighted mean of the entries, channel by channel; sums in f64.
  void (*pool_f32)(float* out, const PoolArgs& args, int64_t n) = nullptr;
  void (*pool_f16)(float* out, const PoolArgs& args, int64_t n) = nullptr;
  // out = x + bias
  void (*add_bias_f32)(float* out, const float* x, const std::byte* bias, int64_t n) = nullptr;
  void (*add_bias_f16)(float* out, const float* x, const std::byte* bias, int64_t n) = nullptr;

  // split_mixes() of host/hc_mix.h for four streams.
  void (*split_mixes_4)(float* pre, float* mix, const SplitArgs& args) = nullptr;
  // x = sum_j weight_j streams_j.  x [hidden] · streams [n_hc, hidden] · weight [n_hc]
  void (*weighted_sum)(float* x, const float* streams, const float* weight, int64_t n_hc,
                       int64_t hidden) = nullptr;
  // streams'_k = post_k y + sum_j comb[j, k] streams_j in place; n_hc <= kMaxHc.
  void (*expand)(float* streams, const float* y, const float* post, const float* comb, int64_t n_hc,
                 int64_t hidden) = nullptr;
};
inline constexpr int64_t kMaxHc = 8;

// Those of the best target this machine and Highway's current set of targets allow.
Kernels select_kernels();

// What each kernel file contributes to select_kernels().
void add_float_dots(Kernels& kernels);
void add_a8_dots(Kernels& kernels);
void add_iq2_xxs_dot(Kernels& kernels);
void add_q4_q2_k_dots(Kernels& kernels);
void add_rounding(Kernels& kernels);
void add_attention(Kernels& kernels);
void add_index_scores(Kernels& kernels);
void add_hyper_connection(Kernels& kernels);
void add_swiglu(Kernels& kernels);
void add_row_ops(Kernels& kernels);

}  // namespace ds4::cpu
