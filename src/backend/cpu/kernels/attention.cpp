// A tile of the running softmax, and the indexer's scores.
// clang-format off: this order is how Highway compiles the file once for each target.
#include "base/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/attention.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <cmath>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ds4::cpu {
namespace HWY_NAMESPACE {

void tile_scores(float* scores, const AttendArgs& args, const float* q) {
  const float* const x[1] = {q};
  int64_t i = 0;
  for (; i + 4 <= args.n_rows; i += 4) {
    const float* const rows[4] = {args.rows[i], args.rows[i + 1], args.rows[i + 2],
                                  args.rows[i + 3]};
    dot_tile<4, 1>(rows, x, args.head_dim, scores + i, 0);
  }
  for (; i < args.n_rows; ++i) {
    const float* const rows[1] = {args.rows[i]};
    dot_tile<1, 1>(rows, x, args.head_dim, scores + i, 0);
  }
  for (i = 0; i < args.n_rows; ++i) scores[i] *= args.scale;
}

// out[d] = out[d] * shrink + sum_i e[i] rows[i][d], i ascending, for kN vectors of channels.
template <int kN>
HWY_INLINE void add_values(float* out, float shrink, const float* e, const AttendArgs& args,
                           int64_t dim) {
  const FloatTag d;
  FloatVec sum[kN];
  for (int v = 0; v < kN; ++v) {
    sum[v] = hn::Mul(hn::LoadU(d, out + dim + v * kVecLanes), hn::Set(d, shrink));
  }
  for (int64_t i = 0; i < args.n_rows; ++i) {
    const FloatVec weight = hn::Set(d, e[i]);
    const float* row = args.rows[i] + dim;
    for (int v = 0; v < kN; ++v) {
      sum[v] = hn::MulAdd(weight, hn::LoadU(d, row + v * kVecLanes), sum[v]);
    }
  }
  for (int v = 0; v < kN; ++v) hn::StoreU(sum[v], d, out + dim + v * kVecLanes);
}

// The operations of add_values() on the channels after the last whole vector.
HWY_INLINE void add_last_values(float* out, float shrink, const float* e, const AttendArgs& args,
                                int64_t dim) {
  const FloatTag d;
  const size_t n = static_cast<size_t>(args.head_dim - dim);
  FloatVec sum = hn::Mul(hn::LoadN(d, out + dim, n), hn::Set(d, shrink));
  for (int64_t i = 0; i < args.n_rows; ++i) {
    sum = hn::MulAdd(hn::Set(d, e[i]), hn::LoadN(d, args.rows[i] + dim, n), sum);
  }
  hn::StoreN(sum, d, out + dim, n);
}

void attend(const AttendArgs& args) {
  for (int64_t h = 0; h < args.n_heads; ++h) {
    float e[kAttendTile];
    tile_scores(e, args, args.q + h * args.head_dim);
    float max = args.max[h];
    for (int64_t i = 0; i < args.n_rows; ++i) max = std::max(max, e[i]);
    // std::exp, one value at a time: a few per cent of the work, and the same bits on every target.
    const float shrink = max > args.max[h] ? std::exp(args.max[h] - max) : 1.0f;
    float sum = args.sum[h] * shrink;
    for (int64_t i = 0; i < args.n_rows; ++i) {
      e[i] = std::exp(e[i] - max);
      sum += e[i];
    }
    args.max[h] = max;
    args.sum[h] = sum;

    float* out = args.out + h * args.head_dim;
    int64_t dim = 0;
    for (; dim + 4 * kVecLanes <= args.head_dim; dim += 4 * kVecLanes) {
      add_values<4>(out, shrink, e, args, dim);
    }
    for (; dim + kVecLanes <= args.head_dim; dim += kVecLanes) {
      add_values<1>(out, shrink, e, args, dim);
    }
    if (dim < args.head_dim) add_last_values(out, shrink, e, args, dim);
  }
}

void index_scores(const IndexScoreArgs& args) {
  for (int64_t c = 0; c < args.n_rows; ++c) {
    const float* const row[1] = {args.rows + c * args.dim};
    float score = 0;
    int64_t h = 0;
    for (; h + 4 <= args.n_heads; h += 4) {
      const float* q = args.q + h * args.dim;
      const float* const heads[4] = {q, q + args.dim, q + 2 * args.dim, q + 3 * args.dim};
      float dot[4];
      dot_tile<1, 4>(row, heads, args.dim, dot, 1);
      for (int i = 0; i < 4; ++i) score += args.weights[h + i] * std::max(0.0f, dot[i]);
    }
    for (; h < args.n_heads; ++h) {
      const float* const head[1] = {args.q + h * args.dim};
      float dot;
      dot_tile<1, 1>(row, head, args.dim, &dot, 1);
      score += args.weights[h] * std::max(0.0f, dot);
    }
    args.scores[c] = score;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ds4::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds4::cpu {

HWY_EXPORT(attend);
HWY_EXPORT(index_scores);

void add_attention(Kernels& kernels) {
  kernels.attend = HWY_DYNAMIC_POINTER(attend);
  kernels.index_scores = HWY_DYNAMIC_POINTER(index_scores);
}

}  // namespace ds4::cpu
#endif
