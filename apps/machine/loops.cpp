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

// Eight sums, so that no addition waits for the one before.
uint64_t ReadBytes(const std::byte* data, int64_t bytes) {
  const hn::ScalableTag<uint64_t> d;
  const size_t n = hn::Lanes(d);
  const auto* words = reinterpret_cast<const uint64_t*>(data);
  const size_t n_words = static_cast<size_t>(bytes) / 8;
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  size_t i = 0;
  for (; i + 8 * n <= n_words; i += 8 * n) {
    s0 = hn::Add(s0, hn::LoadU(d, words + i));
    s1 = hn::Add(s1, hn::LoadU(d, words + i + n));
    s2 = hn::Add(s2, hn::LoadU(d, words + i + 2 * n));
    s3 = hn::Add(s3, hn::LoadU(d, words + i + 3 * n));
    s4 = hn::Add(s4, hn::LoadU(d, words + i + 4 * n));
    s5 = hn::Add(s5, hn::LoadU(d, words + i + 5 * n));
    s6 = hn::Add(s6, hn::LoadU(d, words + i + 6 * n));
    s7 = hn::Add(s7, hn::LoadU(d, words + i + 7 * n));
  }
  s0 =
      hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), hn::Add(hn::Add(s4, s5), hn::Add(s6, s7)));
  uint64_t sum = hn::ReduceSum(d, s0);
  for (; i < n_words; ++i) sum += words[i];
  return sum;
}

// The second operand stays in registers, as an activation does that meets many rows of weights.
int64_t Int8MultiplyAdds(const std::byte* operands, int64_t rounds) {
  const hn::ScalableTag<int32_t> d;
  const hn::Repartition<uint8_t, decltype(d)> du;
  const hn::Repartition<int8_t, decltype(d)> di;
  const size_t n = hn::Lanes(du);
  const auto* a = reinterpret_cast<const uint8_t*>(operands);
  const auto b = hn::LoadU(di, reinterpret_cast<const int8_t*>(operands));
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  for (int64_t r = 0; r < rounds; ++r) {
    for (size_t i = 0; i + 8 * n <= static_cast<size_t>(kOperandBytes); i += 8 * n) {
      s0 = hn::SumOfMulQuadAccumulate(d, hn::LoadU(du, a + i), b, s0);
      s1 = hn::SumOfMulQuadAccumulate(d, hn::LoadU(du, a + i + n), b, s1);
      s2 = hn::SumOfMulQuadAccumulate(d, hn::LoadU(du, a + i + 2 * n), b, s2);
      s3 = hn::SumOfMulQuadAccumulate(d, hn::LoadU(du, a + i + 3 * n), b, s3);
      s4 = hn::SumOfMulQuadAccumulate(d, hn::LoadU(du, a + i + 4 * n), b, s4);
      s5 = hn::SumOfMulQuadAccumulate(d, hn::LoadU(du, a + i + 5 * n), b, s5);
      s6 = hn::SumOfMulQuadAccumulate(d, hn::LoadU(du, a + i + 6 * n), b, s6);
      s7 = hn::SumOfMulQuadAccumulate(d, hn::LoadU(du, a + i + 7 * n), b, s7);
    }
  }
  s0 =
      hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), hn::Add(hn::Add(s4, s5), hn::Add(s6, s7)));
  return hn::ReduceSum(d, s0);
}

float F32MultiplyAdds(const std::byte* operands, int64_t rounds) {
  const hn::ScalableTag<float> d;
  const size_t n = hn::Lanes(d);
  const auto* a = reinterpret_cast<const float*>(operands);
  const auto b = hn::LoadU(d, a);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  for (int64_t r = 0; r < rounds; ++r) {
    for (size_t i = 0; i + 8 * n <= static_cast<size_t>(kF32PerRound); i += 8 * n) {
      s0 = hn::MulAdd(hn::LoadU(d, a + i), b, s0);
      s1 = hn::MulAdd(hn::LoadU(d, a + i + n), b, s1);
      s2 = hn::MulAdd(hn::LoadU(d, a + i + 2 * n), b, s2);
      s3 = hn::MulAdd(hn::LoadU(d, a + i + 3 * n), b, s3);
      s4 = hn::MulAdd(hn::LoadU(d, a + i + 4 * n), b, s4);
      s5 = hn::MulAdd(hn::LoadU(d, a + i + 5 * n), b, s5);
      s6 = hn::MulAdd(hn::LoadU(d, a + i + 6 * n), b, s6);
      s7 = hn::MulAdd(hn::LoadU(d, a + i + 7 * n), b, s7);
    }
  }
  s0 =
      hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), hn::Add(hn::Add(s4, s5), hn::Add(s6, s7)));
  return hn::ReduceSum(d, s0);
}

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
