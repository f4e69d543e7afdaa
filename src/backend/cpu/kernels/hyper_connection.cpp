// The streams' weighted sum and their expansion: one channel at a time, vectors along the channels,
// so a channel's few multiply-adds are the same whatever the width.
// clang-format off: this order is how Highway compiles the file once for each target.
#include "base/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/hyper_connection.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>
// clang-format on

#include <algorithm>

#include "backend/cpu/kernels/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace ds4::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, 16>;
using Vec = hn::Vec<Tag>;
constexpr int64_t kVecLanes = static_cast<int64_t>(hn::MaxLanes(Tag()));

void weighted_sum(float* x, const float* streams, const float* weight, int64_t n_hc,
                  int64_t hidden) {
  const Tag d;
  for (int64_t c = 0; c < hidden; c += kVecLanes) {
    const size_t n = static_cast<size_t>(std::min(kVecLanes, hidden - c));
    Vec sum = hn::Zero(d);
    for (int64_t j = 0; j < n_hc; ++j) {
      sum = hn::MulAdd(hn::Set(d, weight[j]), hn::LoadN(d, streams + j * hidden + c, n), sum);
    }
    hn::StoreN(sum, d, x + c, n);
  }
}

void expand(float* streams, const float* y, const float* post, const float* comb, int64_t n_hc,
            int64_t hidden) {
  const Tag d;
  for (int64_t c = 0; c < hidden; c += kVecLanes) {
    const size_t n = static_cast<size_t>(std::min(kVecLanes, hidden - c));
    const Vec out = hn::LoadN(d, y + c, n);
    Vec old[kMaxHc];
    for (int64_t j = 0; j < n_hc; ++j) old[j] = hn::LoadN(d, streams + j * hidden + c, n);
    for (int64_t k = 0; k < n_hc; ++k) {
      Vec sum = hn::Mul(hn::Set(d, post[k]), out);
      for (int64_t j = 0; j < n_hc; ++j) {
        sum = hn::MulAdd(hn::Set(d, comb[j * n_hc + k]), old[j], sum);
      }
      hn::StoreN(sum, d, streams + k * hidden + c, n);
    }
  }
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
