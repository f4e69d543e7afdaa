// The loops of machine/limits.h, one source for all instruction sets.
// clang-format off: this order is how Highway compiles the file once for each target.
#include "base/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "machine/loops.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>
// clang-format on

#include "machine/loops.h"

#include "machine/limits.h"

HWY_BEFORE_NAMESPACE();
namespace ds4::machine {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Sums that do not wait for each other: two instructions begin in each cycle and take up to five.
constexpr int kChains = 12;

template <class D>
HWY_INLINE hn::Vec<D> Total(D, const hn::Vec<D>* sums) {
  auto total = sums[0];
  for (int c = 1; c < kChains; ++c) total = hn::Add(total, sums[c]);
  return total;
}

uint64_t ReadBytes(const std::byte* data, int64_t bytes) {
  const hn::ScalableTag<uint64_t> d;
  const size_t n = hn::Lanes(d);
  const auto* words = reinterpret_cast<const uint64_t*>(data);
  const size_t n_words = static_cast<size_t>(bytes) / 8;
  hn::Vec<decltype(d)> sums[kChains];
  for (auto& sum : sums) sum = hn::Zero(d);
  size_t i = 0;
  for (; i + kChains * n <= n_words; i += kChains * n) {
    for (size_t c = 0; c < kChains; ++c) {
      sums[c] = hn::Add(sums[c], hn::LoadU(d, words + i + c * n));
    }
  }
  uint64_t sum = hn::ReduceSum(d, Total(d, sums));
  for (; i < n_words; ++i) sum += words[i];
  return sum;
}

// The second operand stays in registers, as an activation does that meets many rows of weights. The
// first one changes: a product of two constants would be taken out of the loop.
int64_t Int8MultiplyAdds(const std::byte* operands, int64_t rounds) {
  const hn::ScalableTag<int32_t> d;
  const hn::Repartition<uint8_t, decltype(d)> du;
  const hn::Repartition<int8_t, decltype(d)> di;
  const size_t n = hn::Lanes(du);
  const auto* a = reinterpret_cast<const uint8_t*>(operands);
  const auto b = hn::LoadU(di, reinterpret_cast<const int8_t*>(operands));
  hn::Vec<decltype(d)> sums[kChains];
  for (auto& sum : sums) sum = hn::Zero(d);
  for (int64_t r = 0; r < rounds; ++r) {
    for (size_t i = 0; i < static_cast<size_t>(kOperandBytes); i += kChains * n) {
      for (size_t c = 0; c < kChains; ++c) {
        sums[c] = hn::SumOfMulQuadAccumulate(d, hn::LoadU(du, a + i + c * n), b, sums[c]);
      }
    }
  }
  return hn::ReduceSum(d, Total(d, sums));
}

float F32MultiplyAdds(const std::byte* operands, int64_t rounds) {
  const hn::ScalableTag<float> d;
  const size_t n = hn::Lanes(d);
  const auto* a = reinterpret_cast<const float*>(operands);
  const auto b = hn::LoadU(d, a);
  hn::Vec<decltype(d)> sums[kChains];
  for (auto& sum : sums) sum = hn::Zero(d);
  for (int64_t r = 0; r < rounds; ++r) {
    for (size_t i = 0; i < static_cast<size_t>(kF32PerRound); i += kChains * n) {
      for (size_t c = 0; c < kChains; ++c) {
        sums[c] = hn::MulAdd(hn::LoadU(d, a + i + c * n), b, sums[c]);
      }
    }
  }
  return hn::ReduceSum(d, Total(d, sums));
}

static_assert(kOperandBytes % (kChains * HWY_MAX_BYTES) == 0, "no vector is left over");

std::string TargetName() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace ds4::machine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds4::machine {

HWY_EXPORT(ReadBytes);
HWY_EXPORT(Int8MultiplyAdds);
HWY_EXPORT(F32MultiplyAdds);
HWY_EXPORT(TargetName);

uint64_t read_bytes(const std::byte* data, int64_t bytes) {
  return HWY_DYNAMIC_DISPATCH(ReadBytes)(data, bytes);
}
int64_t int8_multiply_adds(const std::byte* operands, int64_t rounds) {
  return HWY_DYNAMIC_DISPATCH(Int8MultiplyAdds)(operands, rounds);
}
float f32_multiply_adds(const std::byte* operands, int64_t rounds) {
  return HWY_DYNAMIC_DISPATCH(F32MultiplyAdds)(operands, rounds);
}
std::string target_name() { return HWY_DYNAMIC_DISPATCH(TargetName)(); }

}  // namespace ds4::machine
#endif
