// clang-format off: targets.h comes before Highway.
#include "base/simd_targets.h"

#include <hwy/highway.h>
// clang-format on

#include "backend/cpu/kernels/kernels.h"

namespace ds4::cpu {
namespace {

std::string_view name_of(int64_t target) {
  switch (target) {
#if HWY_ARCH_X86
    case HWY_AVX3_DL:
      return "AVX-512 VNNI";
    case HWY_AVX3:
      return "AVX-512";
    case HWY_AVX2:
      return "AVX2";
    case HWY_SSE4:
      return "SSE4";
    case HWY_SSE2:
      return "SSE2";
#elif HWY_ARCH_ARM
    case HWY_NEON_WITHOUT_AES:
      return "NEON";
#endif
    default:
      return hwy::TargetName(target);
  }
}

}  // namespace

Kernels select_kernels() {
  // The best of what is compiled here and what the machine has: the lowest bit, by Highway's order.
  const int64_t supported = hwy::SupportedTargets() & HWY_TARGETS;
  hwy::GetChosenTarget().Update(supported);
  Kernels kernels;
  const int64_t best = supported & -supported;
  kernels.target = name_of(best);
#if HWY_ARCH_X86
  kernels.slow_target = best == HWY_SSE4 || best == HWY_SSE2;
#endif
  add_float_dots(kernels);
  add_a8_dots(kernels);
  add_q4_q2_k_dots(kernels);
  add_iq2_xxs_dot(kernels);
  add_rounding(kernels);
  add_attention(kernels);
  add_index_scores(kernels);
  add_hyper_connection(kernels);
  add_swiglu(kernels);
  add_row_ops(kernels);
  return kernels;
}

}  // namespace ds4::cpu
