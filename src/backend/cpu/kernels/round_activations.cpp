// Activations to int8, several at a time: the bytes of encode_block() in quant/q8_k.h. Blocks with
// a peak outside the range where scale and inverse are plain numbers (zeros, subnormals, NaN,
// infinity) take the scalar form itself.
// clang-format off: this order is how Highway compiles the file once for each target.
#include "base/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/round_activations.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>
// clang-format on

#include <cstring>

#include "backend/cpu/kernels/kernels.h"
#include "quant/q8_k.h"

HWY_BEFORE_NAMESPACE();
namespace ds4::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, 16>;
using Vec = hn::Vec<Tag>;
constexpr int kN = static_cast<int>(hn::MaxLanes(Tag()));

// The largest magnitude of n values; NaN or infinity where one of them is.
HWY_INLINE float peak_of(const float* x, int n) {
  const Tag d;
  Vec peak = hn::Zero(d), sum = hn::Zero(d);
  for (int i = 0; i < n; i += kN) {
    const Vec v = hn::Abs(hn::LoadU(d, x + i));
    peak = hn::Max(peak, v);
    sum = hn::MulAdd(v, hn::Zero(d), sum);  // NaN from NaN or infinity, and stays NaN
  }
  const float zero = hn::ReduceSum(d, sum);
  return zero == 0.0f ? hn::ReduceMax(d, peak) : zero;
}

HWY_INLINE bool is_plain(float peak) { return peak > 0x1p-90f && peak < 0x1p90f; }

// q[i] = rne(x[i] k) of n values; returns their sum.
HWY_INLINE int32_t round_codes(const float* x, float k, int n, int8_t* q) {
  const Tag d;
  const hn::RebindToSigned<Tag> di;
  const hn::Rebind<int8_t, Tag> dq;
  auto sum = hn::Zero(di);
  for (int i = 0; i < n; i += kN) {
    const auto code = hn::NearestInt(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, k)));
    sum = hn::Add(sum, code);
    hn::StoreU(hn::DemoteTo(dq, code), dq, q + i);
  }
  return hn::ReduceSum(di, sum);
}

void round_a8(const float* x, int64_t n_blocks, ActivationGroup* group) {
  for (int b = 0; b < n_blocks; ++b) {
    const float* values = x + b * kA8Elems;
    int8_t* q = group->q + b * kA8Elems;
    const float peak = peak_of(values, kA8Elems);
    if (is_plain(peak)) {
      const float scale = peak / 127.0f;
      group->d[b] = scale;
      group->sums[b] = round_codes(values, 1.0f / scale, kA8Elems, q);
      continue;
    }
    BlockA8 block;
    encode_block(values, &block);
    group->d[b] = block.d;
    std::memcpy(q, block.q, sizeof(block.q));
    group->sums[b] = 0;
    for (const int8_t code : block.q) group->sums[b] += code;
  }
}

HWY_INLINE float first_peak(const float* x, float peak) {
  const Tag d;
  for (int i = 0;; i += kN) {
    const auto found = hn::Eq(hn::Abs(hn::LoadU(d, x + i)), hn::Set(d, peak));
    if (!hn::AllFalse(d, found))
      return x[static_cast<size_t>(i) + hn::FindKnownFirstTrue(d, found)];
  }
}

void round_q8_k(const float* x, ActivationGroup* group) {
  int32_t sums[16];
  const float peak = peak_of(x, kQ8KElems);
  if (is_plain(peak)) {
    const float k = -127.0f / first_peak(x, peak);
    group->d[0] = 1.0f / k;
    for (int j = 0; j < 16; ++j) sums[j] = round_codes(x + 16 * j, k, 16, group->q + 16 * j);
  } else {
    BlockQ8K block;
    encode_block(x, &block);
    group->d[0] = block.d;
    std::memcpy(group->q, block.q, sizeof(block.q));
    for (int j = 0; j < 16; ++j) sums[j] = block.sums[j];
  }
  constexpr int kOrder[4] = {0, 2, 1, 3};
  for (int b = 0; b < 8; ++b) group->sums[b] = sums[2 * b] + sums[2 * b + 1];
  for (int i = 0; i < 16; ++i) {
    group->pairs16[i] = static_cast<int16_t>(sums[i / 4 * 4 + kOrder[i % 4]]);
  }
  for (int i = 0; i < 8; ++i) {
    group->pairs32[i] = static_cast<int16_t>(group->sums[i / 4 * 4 + kOrder[i % 4]]);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ds4::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds4::cpu {

HWY_EXPORT(round_a8);
HWY_EXPORT(round_q8_k);

void add_rounding(Kernels& kernels) {
  kernels.round_a8 = HWY_DYNAMIC_POINTER(round_a8);
  kernels.round_q8_k = HWY_DYNAMIC_POINTER(round_q8_k);
}

}  // namespace ds4::cpu
#endif
