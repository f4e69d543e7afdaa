// The streams' weighted sum and their expansion: one channel at a time, vectors along the channels,
// so a channel's few multiply-adds are the same whatever the width.
// clang-format off: this order is how Highway compiles the file once for each target.
#include "base/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/hyper_connection.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>
// clang-format on

#include "backend/cpu/kernels/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace ds4::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, 16>;
using Vec = hn::Vec<Tag>;
constexpr int64_t kVecLanes = static_cast<int64_t>(hn::MaxLanes(Tag()));

// A vector of channels: whole ones are loaded and stored as such, the last channels one by one.
template <bool kWhole>
HWY_INLINE Vec load(const float* p, size_t n) {
  return kWhole ? hn::LoadU(Tag(), p) : hn::LoadN(Tag(), p, n);
}
template <bool kWhole>
HWY_INLINE void store(Vec v, float* p, size_t n) {
  if constexpr (kWhole) {
    hn::StoreU(v, Tag(), p);
  } else {
    hn::StoreN(v, Tag(), p, n);
  }
}

// kHc streams, or n_hc when kHc is 0: four are what every known model has.
template <bool kWhole, int kHc>
HWY_INLINE void weighted_sum_vector(float* x, const float* streams, const float* weight,
                                    int64_t n_hc, int64_t hidden, size_t n) {
  Vec sum = hn::Zero(Tag());
  for (int64_t j = 0; j < (kHc == 0 ? n_hc : kHc); ++j) {
    sum = hn::MulAdd(hn::Set(Tag(), weight[j]), load<kWhole>(streams + j * hidden, n), sum);
  }
  store<kWhole>(sum, x, n);
}

template <bool kWhole, int kHc>
HWY_INLINE void expand_vector(float* streams, const float* y, const float* post, const float* comb,
                              int64_t n_hc, int64_t hidden, size_t n) {
  const Tag d;
  const int64_t n_streams = kHc == 0 ? n_hc : kHc;
  const Vec out = load<kWhole>(y, n);
  Vec old[kHc == 0 ? kMaxHc : kHc];
  for (int64_t j = 0; j < n_streams; ++j) old[j] = load<kWhole>(streams + j * hidden, n);
  for (int64_t k = 0; k < n_streams; ++k) {
    Vec sum = hn::Mul(hn::Set(d, post[k]), out);
    for (int64_t j = 0; j < n_streams; ++j) {
      sum = hn::MulAdd(hn::Set(d, comb[j * n_streams + k]), old[j], sum);
    }
    store<kWhole>(sum, streams + k * hidden, n);
  }
}

template <int kHc>
void weighted_sum_of(float* x, const float* streams, const float* weight, int64_t n_hc,
                     int64_t hidden) {
  int64_t c = 0;
  for (; c + kVecLanes <= hidden; c += kVecLanes) {
    weighted_sum_vector<true, kHc>(x + c, streams + c, weight, n_hc, hidden, 0);
  }
  if (c == hidden) return;
  weighted_sum_vector<false, kHc>(x + c, streams + c, weight, n_hc, hidden,
                                  static_cast<size_t>(hidden - c));
}

template <int kHc>
void expand_of(float* streams, const float* y, const float* post, const float* comb, int64_t n_hc,
               int64_t hidden) {
  int64_t c = 0;
  for (; c + kVecLanes <= hidden; c += kVecLanes) {
    expand_vector<true, kHc>(streams + c, y + c, post, comb, n_hc, hidden, 0);
  }
  if (c == hidden) return;
  expand_vector<false, kHc>(streams + c, y + c, post, comb, n_hc, hidden,
                            static_cast<size_t>(hidden - c));
}

void weighted_sum(float* x, const float* streams, const float* weight, int64_t n_hc,
                  int64_t hidden) {
  const auto run = n_hc == 4 ? weighted_sum_of<4> : weighted_sum_of<0>;
  run(x, streams, weight, n_hc, hidden);
}

void expand(float* streams, const float* y, const float* post, const float* comb, int64_t n_hc,
            int64_t hidden) {
  const auto run = n_hc == 4 ? expand_of<4> : expand_of<0>;
  run(streams, y, post, comb, n_hc, hidden);
}

}  // namespace HWY_NAMESPACE
}  // namespace ds4::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds4::cpu {

HWY_EXPORT(weighted_sum);
HWY_EXPORT(expand);

void add_hyper_connection(Kernels& kernels) {
  kernels.weighted_sum = HWY_DYNAMIC_POINTER(weighted_sum);
  kernels.expand = HWY_DYNAMIC_POINTER(expand);
}

}  // namespace ds4::cpu
#endif
