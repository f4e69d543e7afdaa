#pragma once
// The inner loops of the cpu backend as function pointers, chosen once for the machine. A kernel is
// single-threaded, allocates nothing and sees plain pointers; the ops around it split the work.
//
// Each has one order of additions that does not depend on the vector width, on how many rows a call
// brings, or on where a range was cut (targets.h tells which targets agree bit for bit).
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "backend/cpu/activations.h"
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
};
using DotFn = void (*)(const DotArgs& args);

// Adds a tile of key/value rows to the running softmax of some heads of one query:
//   max' = max(max, s_i); out, sum scaled by exp(max - max'); then for each row, in order,
//   e_i = exp(s_i - max'), sum += e_i, out += e_i rows_i;   s_i = scale * (q . rows_i)
struct AttendArgs {
  const float* q = nullptr;            // [n_heads, head_dim]
  const float* const* rows = nullptr;  // n_rows rows of head_dim
  int64_t n_rows = 0;                  // at most kAttendTile
  int64_t n_heads = 0;
  int64_t head_dim = 0;
  float scale = 0;
  float* max = nullptr;  // [n_heads]
  float* sum = nullptr;  // [n_heads]
  float* out = nullptr;  // [n_heads, head_dim]
};
inline constexpr int64_t kAttendTile = 64;

// scores[c] = sum_h weights[h] * max(0, q[h] . rows[c]), h ascending.
struct IndexScoreArgs {
  const float* q = nullptr;        // [n_heads, dim]
  const float* weights = nullptr;  // [n_heads]
  const float* rows = nullptr;     // [n_rows, dim]
  int64_t n_heads = 0;
  int64_t dim = 0;
  int64_t n_rows = 0;
  float* scores = nullptr;
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

  void (*attend)(const AttendArgs& args) = nullptr;
  void (*index_scores)(const IndexScoreArgs& args) = nullptr;

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
void add_q8_k_dots(Kernels& kernels);
void add_attention(Kernels& kernels);
void add_hyper_connection(Kernels& kernels);

}  // namespace ds4::cpu
