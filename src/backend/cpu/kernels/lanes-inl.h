// The f32 sum that dot products, attention and the indexer are made of; compiled once per target.
//
// 16 partial sums: lane l adds the products of columns l, l + 16, l + 32, ... in ascending order,
// each by one fused multiply-add; then lanes are added pairwise, 16 -> 8 -> 4 -> 2 -> 1. Sixteen
// lanes are one AVX-512 vector, two of AVX2 or four of NEON: the same additions in the same order.
//
// Included by kernel files between HWY_BEFORE_NAMESPACE and their own code, once per target.
#if defined(DS4_BACKEND_CPU_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DS4_BACKEND_CPU_LANES_INL_H_
#undef DS4_BACKEND_CPU_LANES_INL_H_
#else
#define DS4_BACKEND_CPU_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace ds4::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int64_t kLanes = 16;
using FloatTag = hn::CappedTag<float, kLanes>;
using FloatVec = hn::Vec<FloatTag>;
inline constexpr int64_t kVecLanes = static_cast<int64_t>(hn::MaxLanes(FloatTag()));
inline constexpr int kVecs = static_cast<int>(kLanes / kVecLanes);

// kVecLanes values of a row as f32; exact.
template <class T>
HWY_INLINE FloatVec load_floats(const T* p) {
  if constexpr (std::is_same_v<T, float>) {
    return hn::LoadU(FloatTag(), p);
  } else {
    return hn::PromoteTo(FloatTag(), hn::LoadU(hn::Rebind<T, FloatTag>(), p));
  }
}

// The 16 partial sums of one dot product.
struct LaneSums {
  FloatVec v[kVecs];
};

// The first two steps of the pairwise addition: 16 -> 8 -> 4 lanes. A template so that the branches
// for other widths need not compile.
template <class Sums>
HWY_INLINE hn::Vec<hn::CappedTag<float, 4>> add_to_four(const Sums& sums) {
  const hn::CappedTag<float, 4> d4;
  if constexpr (kVecs == 1) {
    const hn::Half<FloatTag> d8;
    const auto eight = hn::Add(hn::LowerHalf(d8, sums.v[0]), hn::UpperHalf(d8, sums.v[0]));
    return hn::Add(hn::LowerHalf(d4, eight), hn::UpperHalf(d4, eight));
  } else if constexpr (kVecs == 2) {
    const auto eight = hn::Add(sums.v[0], sums.v[1]);
    return hn::Add(hn::LowerHalf(d4, eight), hn::UpperHalf(d4, eight));
  } else {
    return hn::Add(hn::Add(sums.v[0], sums.v[2]), hn::Add(sums.v[1], sums.v[3]));
  }
}

template <class Sums>
HWY_INLINE float add_lanes(const Sums& sums) {
  alignas(16) float lane[4];
  hn::Store(add_to_four(sums), hn::CappedTag<float, 4>(), lane);
  return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

// add_lanes() of four sums at once.
template <class Sums>
HWY_INLINE hn::Vec<hn::CappedTag<float, 4>> add_lanes_of_four(const Sums& a, const Sums& b,
                                                              const Sums& c, const Sums& d) {
  const hn::CappedTag<float, 4> d4;
  const hn::RepartitionToWide<decltype(d4)> d2;
  const auto four_a = add_to_four(a), four_b = add_to_four(b);
  const auto four_c = add_to_four(c), four_d = add_to_four(d);
  // a0 + a2, b0 + b2, a1 + a3, b1 + b3; then halves of the two pairs side by side.
  const auto ab = hn::BitCast(d2, hn::Add(hn::InterleaveLower(d4, four_a, four_b),
                                          hn::InterleaveUpper(d4, four_a, four_b)));
  const auto cd = hn::BitCast(d2, hn::Add(hn::InterleaveLower(d4, four_c, four_d),
                                          hn::InterleaveUpper(d4, four_c, four_d)));
  return hn::Add(hn::BitCast(d4, hn::InterleaveLower(d2, ab, cd)),
                 hn::BitCast(d4, hn::InterleaveUpper(d2, ab, cd)));
}

// One step of 16 columns for kW x kX dot products.
template <int kW, int kX, class T>
HWY_INLINE void add_products(LaneSums (&sums)[kW][kX], const T* const (&w)[kW],
                             const float* const (&x)[kX], int64_t col) {
  for (int v = 0; v < kVecs; ++v) {
    FloatVec xs[kX];
    for (int b = 0; b < kX; ++b) xs[b] = hn::LoadU(FloatTag(), x[b] + col + v * kVecLanes);
    for (int a = 0; a < kW; ++a) {
      const FloatVec ws = load_floats(w[a] + col + v * kVecLanes);
      for (int b = 0; b < kX; ++b) sums[a][b].v[v] = hn::MulAdd(ws, xs[b], sums[a][b].v[v]);
    }
  }
}

// The last n % 16 columns, filled up with zeros so that they are one more step.
template <int kW, int kX, class T>
HWY_INLINE void add_tail(LaneSums (&sums)[kW][kX], const T* const (&w)[kW],
                         const float* const (&x)[kX], int64_t col, int64_t n) {
  T w_values[kW][kLanes];
  float x_values[kX][kLanes] = {};
  const T* w_rows[kW];
  const float* x_rows[kX];
  for (int a = 0; a < kW; ++a) {
    std::memset(w_values[a], 0, sizeof(w_values[a]));
    std::memcpy(w_values[a], w[a] + col, static_cast<size_t>(n) * sizeof(T));
    w_rows[a] = w_values[a];
  }
  for (int b = 0; b < kX; ++b) {
    std::memcpy(x_values[b], x[b] + col, static_cast<size_t>(n) * sizeof(float));
    x_rows[b] = x_values[b];
  }
  add_products<kW, kX>(sums, w_rows, x_rows, 0);
}

// out[b * out_stride + a] = w[a] . x[b] over n columns. Several at once hide the latency of the
// multiply-add and load each vector once; a single result does not depend on kW or kX.
template <int kW, int kX, class T>
HWY_INLINE void dot_tile(const T* const (&w)[kW], const float* const (&x)[kX], int64_t n,
                         float* out, int64_t out_stride) {
  LaneSums sums[kW][kX];
  for (int a = 0; a < kW; ++a) {
    for (int b = 0; b < kX; ++b) {
      for (int v = 0; v < kVecs; ++v) sums[a][b].v[v] = hn::Zero(FloatTag());
    }
  }
  int64_t col = 0;
  for (; col + kLanes <= n; col += kLanes) add_products<kW, kX>(sums, w, x, col);
  if (col < n) add_tail<kW, kX>(sums, w, x, col, n - col);
  for (int b = 0; b < kX; ++b) {
    if constexpr (kW == 4) {
      hn::StoreU(add_lanes_of_four(sums[0][b], sums[1][b], sums[2][b], sums[3][b]),
                 hn::CappedTag<float, 4>(), out + b * out_stride);
    } else {
      for (int a = 0; a < kW; ++a) out[b * out_stride + a] = add_lanes(sums[a][b]);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ds4::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
