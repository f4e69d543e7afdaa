// Ops on one row without a matrix: norms, RoPE, router scores, a compressor's pooling, and
// the weights of a hyper-connection. Elements are independent of each other, or summed in an order
// that knows no vector width; exp() is exp-inl.h's. So every target with a fused multiply-add gives
// the same bits; inverse_rms() does on the others too, since squares of f32 are exact in f64.
// clang-format off: this order is how Highway compiles the file once for each target.
#include "base/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/row_ops.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/kernels/exp-inl.h"
#include "backend/cpu/kernels/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace ds4::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, 16>;
using Vec = hn::Vec<Tag>;
constexpr int64_t kVecLanes = static_cast<int64_t>(hn::MaxLanes(Tag()));
using DoubleTag = hn::CappedTag<double, 8>;
using DoubleVec = hn::Vec<DoubleTag>;
constexpr int kDoubleLanes = static_cast<int>(hn::MaxLanes(DoubleTag()));
constexpr int kSums = 16;  // partial sums of inverse_rms(): enough to hide an addition's latency

HWY_INLINE void add_squares(DoubleVec (&sums)[kSums / kDoubleLanes], const float* x) {
  const DoubleTag d;
  const hn::Rebind<float, DoubleTag> df;
  for (int v = 0; v < kSums / kDoubleLanes; ++v) {
    const DoubleVec value = hn::PromoteTo(d, hn::LoadU(df, x + v * kDoubleLanes));
    sums[v] = hn::MulAdd(value, value, sums[v]);
  }
}

// Partial sum l adds the squares of columns l, l + 16, ..; then pairwise, 16 -> 8 -> 4 -> 2 -> 1.
float inverse_rms(const float* x, int64_t n, float eps) {
  DoubleVec sums[kSums / kDoubleLanes];
  for (DoubleVec& sum : sums) sum = hn::Zero(DoubleTag());
  int64_t i = 0;
  for (; i + kSums <= n; i += kSums) add_squares(sums, x + i);
  if (i < n) {
    float last[kSums] = {};
    std::memcpy(last, x + i, static_cast<size_t>(n - i) * sizeof(float));
    add_squares(sums, last);
  }
  alignas(64) double lane[kSums];
  for (int v = 0; v < kSums / kDoubleLanes; ++v) {
    hn::Store(sums[v], DoubleTag(), lane + v * kDoubleLanes);
  }
  for (int width = kSums / 2; width > 0; width /= 2) {
    for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
  }
  const float mean = static_cast<float>(lane[0] / static_cast<double>(n));
  return 1.0f / std::sqrt(mean + eps);
}

// fn(load, store, at) for every vector of n values: load(p) and store(v, p) touch only what is
// there.
template <class Fn>
HWY_INLINE void each_vector(int64_t n, const Fn& fn) {
  const Tag d;
  int64_t i = 0;
  for (; i + kVecLanes <= n; i += kVecLanes) {
    fn([d](const float* p) HWY_ATTR { return hn::LoadU(d, p); },
       [d](Vec v, float* p) HWY_ATTR { hn::StoreU(v, d, p); }, i);
  }
  if (i < n) {
    const size_t left = static_cast<size_t>(n - i);
    fn([d, left](const float* p) HWY_ATTR { return hn::LoadN(d, p, left); },
       [d, left](Vec v, float* p) HWY_ATTR { hn::StoreN(v, d, p, left); }, i);
  }
}

void rms_norm(float* out, const float* x, const float* weight, int64_t n, float eps) {
  const Vec scale = hn::Set(Tag(), inverse_rms(x, n, eps));
  if (weight == nullptr) {
    each_vector(n, [&](const auto& load, const auto& store, int64_t i)
                       HWY_ATTR { store(hn::Mul(load(x + i), scale), out + i); });
  } else {
    each_vector(n, [&](const auto& load, const auto& store, int64_t i) HWY_ATTR {
      store(hn::Mul(load(weight + i), hn::Mul(load(x + i), scale)), out + i);
    });
  }
}

// Even lanes x0 c - x1 s, odd ones x1 c + x0 s: two products and one sum each, as in rotate_tail().
void rotate(float* x, const float* table, int64_t n_pairs, bool inverse) {
  const Tag d;
  const Vec even = hn::Set(d, inverse ? 1.0f : -1.0f), odd = hn::Set(d, inverse ? -1.0f : 1.0f);
  const Vec sign = hn::OddEven(odd, even);
  each_vector(2 * n_pairs, [&](const auto& load, const auto& store, int64_t i) HWY_ATTR {
    const Vec pair = load(x + i), angle = load(table + i);
    const Vec cross = hn::Mul(hn::Reverse2(d, pair), hn::Mul(hn::DupOdd(angle), sign));
    store(hn::Add(hn::Mul(pair, hn::DupEven(angle)), cross), x + i);
  });
}

// A NaN stays one, unlike with Max() on some machines.
HWY_INLINE Vec at_least(Vec x, Vec limit) { return hn::IfThenElse(hn::Lt(x, limit), limit, x); }

// log(1 + t) for t in [0, 1], within 2 ulp: 1 + t = m 2^k with m in [sqrt(1/2), sqrt(2)], the
// polynomial of fdlibm's logf for m, and what the addition 1 + t has lost.
HWY_INLINE Vec log1p_of(Vec t) {
  const Tag d;
  const Vec one = hn::Set(d, 1.0f), half = hn::Set(d, 0.5f);
  const Vec sum = hn::Add(one, t);
  const Vec lost = hn::Div(hn::Sub(t, hn::Sub(sum, one)), sum);
  const auto upper = hn::Gt(sum, hn::Set(d, 1.41421356f));
  const Vec f = hn::Sub(hn::IfThenElse(upper, hn::Mul(sum, half), sum), one);
  const Vec s = hn::Div(f, hn::Add(f, hn::Set(d, 2.0f)));
  const Vec z = hn::Mul(s, s);
  Vec r = hn::Set(d, 0.24279078841f);
  r = hn::MulAdd(r, z, hn::Set(d, 0.28498786688f));
  r = hn::MulAdd(r, z, hn::Set(d, 0.40000972152f));
  r = hn::MulAdd(r, z, hn::Set(d, 0.66666662693f));
  r = hn::Mul(r, z);
  const Vec square = hn::Mul(half, hn::Mul(f, f));
  const Vec k = hn::IfThenElseZero(upper, one);
  const Vec low = hn::MulAdd(k, hn::Set(d, 9.0580006145e-06f), lost);
  const Vec log_m = hn::Sub(f, hn::Sub(square, hn::MulAdd(s, hn::Add(square, r), low)));
  return hn::MulAdd(k, hn::Set(d, 6.9313812256e-01f), log_m);
}

// sqrt(softplus(x)), softplus(x) = max(x, 0) + log(1 + exp(-|x|)).
void router_scores(float* scores, const float* logits, int64_t n) {
  const Tag d;
  each_vector(n, [&](const auto& load, const auto& store, int64_t i) HWY_ATTR {
    const Vec x = load(logits + i);
    const Vec tail = log1p_of(exp_of(d, hn::Neg(hn::Abs(x))));
    store(hn::Sqrt(hn::Add(at_least(x, hn::Zero(d)), tail)), scores + i);
  });
}

// --- compressor ----------------------------------------------------------------------------------

using PoolTag = hn::Rebind<float, DoubleTag>;
using PoolVec = hn::Vec<PoolTag>;

template <class T, bool kWhole>
HWY_INLINE PoolVec load_values(const T* p, [[maybe_unused]] size_t n) {
  const PoolTag d;
  if constexpr (std::is_same_v<T, float>) {
    return kWhole ? hn::LoadU(d, p) : hn::LoadN(d, p, n);
  } else {
    const hn::Rebind<T, PoolTag> dt;
    return hn::PromoteTo(d, kWhole ? hn::LoadU(dt, p) : hn::LoadN(dt, p, n));
  }
}

template <class T, bool kWhole>
HWY_INLINE void pool_vector(float* out, const PoolArgs& args, int64_t c, size_t n) {
  const PoolTag d;
  const DoubleTag dd;
  const auto score = [&](int i) HWY_ATTR {
    const T* bias = reinterpret_cast<const T*>(args.bias[i]) + c;
    return hn::Add(load_values<float, kWhole>(args.gate[i] + c, n),
                   load_values<T, kWhole>(bias, n));
  };
  PoolVec max = score(0);
  for (int i = 1; i < args.n; ++i) max = hn::Max(max, score(i));
  DoubleVec sum = hn::Zero(dd), value = hn::Zero(dd);
  for (int i = 0; i < args.n; ++i) {
    const DoubleVec e = hn::PromoteTo(dd, exp_of(d, hn::Sub(score(i), max)));
    sum = hn::Add(sum, e);
    value = hn::MulAdd(e, hn::PromoteTo(dd, load_values<float, kWhole>(args.kv[i] + c, n)), value);
  }
  const PoolVec result = hn::DemoteTo(d, hn::Div(value, sum));
  if constexpr (kWhole) {
    hn::StoreU(result, d, out + c);
  } else {
    hn::StoreN(result, d, out + c, n);
  }
}

template <class T>
void pool_channels(float* out, const PoolArgs& args, int64_t n) {
  int64_t c = 0;
  for (; c + kDoubleLanes <= n; c += kDoubleLanes) pool_vector<T, true>(out, args, c, 0);
  if (c < n) pool_vector<T, false>(out, args, c, static_cast<size_t>(n - c));
}
void pool_f32(float* out, const PoolArgs& args, int64_t n) { pool_channels<float>(out, args, n); }
void pool_f16(float* out, const PoolArgs& args, int64_t n) {
  pool_channels<hwy::float16_t>(out, args, n);
}

template <class T>
HWY_INLINE void add_bias(float* out, const float* x, const std::byte* bias, int64_t n) {
  const PoolTag d;
  const T* b = reinterpret_cast<const T*>(bias);
  int64_t c = 0;
  for (; c + kDoubleLanes <= n; c += kDoubleLanes) {
    hn::StoreU(hn::Add(hn::LoadU(d, x + c), load_values<T, true>(b + c, 0)), d, out + c);
  }
  if (c == n) return;
  const size_t left = static_cast<size_t>(n - c);
  hn::StoreN(hn::Add(hn::LoadN(d, x + c, left), load_values<T, false>(b + c, left)), d, out + c,
             left);
}
void add_bias_f32(float* out, const float* x, const std::byte* bias, int64_t n) {
  add_bias<float>(out, x, bias, n);
}
void add_bias_f16(float* out, const float* x, const std::byte* bias, int64_t n) {
  add_bias<hwy::float16_t>(out, x, bias, n);
}

// --- hyper-connections ---------------------------------------------------------------------------

using QuadTag = hn::CappedTag<float, 4>;
using Quad = hn::Vec<QuadTag>;

HWY_INLINE void transpose(Quad (&a)[4]) {
  const QuadTag d;
  const Quad low02 = hn::InterleaveLower(d, a[0], a[2]), low13 = hn::InterleaveLower(d, a[1], a[3]);
  const Quad up02 = hn::InterleaveUpper(d, a[0], a[2]), up13 = hn::InterleaveUpper(d, a[1], a[3]);
  a[0] = hn::InterleaveLower(d, low02, low13);
  a[1] = hn::InterleaveUpper(d, low02, low13);
  a[2] = hn::InterleaveLower(d, up02, up13);
  a[3] = hn::InterleaveUpper(d, up02, up13);
}

HWY_INLINE Quad sum_of(const Quad (&a)[4]) {
  return hn::Add(hn::Add(hn::Add(a[0], a[1]), a[2]), a[3]);
}

// Divides the four vectors by their sum plus eps, lane by lane.
HWY_INLINE void normalise(Quad (&a)[4], Quad eps) {
  const Quad factor = hn::Div(hn::Set(QuadTag(), 1.0f), hn::Add(sum_of(a), eps));
  for (Quad& v : a) v = hn::Mul(v, factor);
}

// A vector is a row of the matrix in a column step and, transposed, a column in a row step: sums
// run across vectors, never within one.
HWY_INLINE void sinkhorn(Quad (&a)[4], int64_t iters, Quad eps) {
  const QuadTag d;
  transpose(a);
  const Quad max = hn::Max(hn::Max(a[0], a[1]), hn::Max(a[2], a[3]));
  for (Quad& v : a) v = exp_of(d, hn::Sub(v, max));
  const Quad sum = sum_of(a);
  for (Quad& v : a) v = hn::Add(hn::Div(v, sum), eps);
  transpose(a);
  normalise(a, eps);
  for (int64_t step = 1; step < iters; ++step) {
    transpose(a);
    normalise(a, eps);
    transpose(a);
    normalise(a, eps);
  }
}

HWY_INLINE Quad sigmoid(Quad x) {
  const QuadTag d;
  const Quad one = hn::Set(d, 1.0f), minus = hn::Neg(x), limit = hn::Set(d, 88.0f);
  const Quad e = exp_of(d, hn::IfThenElse(hn::Gt(minus, limit), limit, minus));
  return hn::Div(one, hn::Add(one, e));
}

void split_mixes_4(float* pre, float* mix, const SplitArgs& args) {
  const QuadTag d;
  const Quad rms = hn::Set(d, args.inverse_rms), eps = hn::Set(d, args.eps);
  const auto affine = [&](int64_t at, int scale) HWY_ATTR {
    const Quad m = hn::Mul(hn::LoadU(d, args.mixes + at), rms);
    return hn::Add(hn::Mul(m, hn::Set(d, args.scale[scale])), hn::LoadU(d, args.base + at));
  };
  hn::StoreU(hn::Add(sigmoid(affine(0, 0)), eps), d, pre);
  hn::StoreU(hn::Mul(hn::Set(d, 2.0f), sigmoid(affine(4, 1))), d, mix);
  Quad comb[4] = {affine(8, 2), affine(12, 2), affine(16, 2), affine(20, 2)};
  sinkhorn(comb, args.sinkhorn_iters, eps);
  for (int j = 0; j < 4; ++j) hn::StoreU(comb[j], d, mix + 4 + 4 * j);
}

}  // namespace HWY_NAMESPACE
}  // namespace ds4::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds4::cpu {

HWY_EXPORT(inverse_rms);
HWY_EXPORT(rms_norm);
HWY_EXPORT(rotate);
HWY_EXPORT(router_scores);
HWY_EXPORT(pool_f32);
HWY_EXPORT(pool_f16);
HWY_EXPORT(add_bias_f32);
HWY_EXPORT(add_bias_f16);
HWY_EXPORT(split_mixes_4);

void add_row_ops(Kernels& kernels) {
  kernels.inverse_rms = HWY_DYNAMIC_POINTER(inverse_rms);
  kernels.rms_norm = HWY_DYNAMIC_POINTER(rms_norm);
  kernels.rotate = HWY_DYNAMIC_POINTER(rotate);
  kernels.router_scores = HWY_DYNAMIC_POINTER(router_scores);
  kernels.pool_f32 = HWY_DYNAMIC_POINTER(pool_f32);
  kernels.pool_f16 = HWY_DYNAMIC_POINTER(pool_f16);
  kernels.add_bias_f32 = HWY_DYNAMIC_POINTER(add_bias_f32);
  kernels.add_bias_f16 = HWY_DYNAMIC_POINTER(add_bias_f16);
  kernels.split_mixes_4 = HWY_DYNAMIC_POINTER(split_mixes_4);
}

}  // namespace ds4::cpu
#endif
