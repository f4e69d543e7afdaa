// The gated unit of the experts, in vectors. One value at a time in effect: no order to keep.
// clang-format off: this order is how Highway compiles the file once for each target.
#include "base/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/swiglu.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>
// clang-format on

#include <algorithm>

#include "backend/cpu/kernels/exp-inl.h"
#include "backend/cpu/kernels/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace ds4::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void swiglu(float* out, const float* g, const float* u, float scale, float limit, int64_t n) {
  const hn::CappedTag<float, 16> d;
  const int64_t step = static_cast<int64_t>(hn::Lanes(d));
  const auto one = hn::Set(d, 1.0f), high = hn::Set(d, limit), low = hn::Set(d, -limit);
  for (int64_t i = 0; i < n; i += step) {
    const size_t left = static_cast<size_t>(std::min(step, n - i));
    // The value comes second, so that a NaN stays one on x86 as well.
    const auto gate = hn::Min(high, hn::LoadN(d, g + i, left));
    const auto up = hn::Max(low, hn::Min(high, hn::LoadN(d, u + i, left)));
    // exp_of() is good up to 88; a gate below -87 is nothing either way.
    const auto e = exp_of(d, hn::Min(hn::Set(d, 87.0f), hn::Neg(gate)));
    const auto value = hn::Mul(hn::Div(gate, hn::Add(one, e)), up);
    hn::StoreN(hn::Mul(hn::Set(d, scale), value), d, out + i, left);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ds4::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds4::cpu {

HWY_EXPORT(swiglu);

void add_swiglu(Kernels& kernels) { kernels.swiglu = HWY_DYNAMIC_POINTER(swiglu); }

}  // namespace ds4::cpu
#endif
