// clang-format off: this order is how Highway compiles the file once for each target.
#include "base/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/backend/machine_limits.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>
// clang-format on

#include "bench/backend/machine_limits.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

HWY_BEFORE_NAMESPACE();
namespace ds4 {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// As many chains as hide the latency of the instruction.
inline constexpr int kChains = 10;

// Returns the number of products; *out keeps the compiler from dropping them.
int64_t multiply_int8(int64_t rounds, int32_t* out) {
  const hn::CappedTag<int32_t, 16> d;
  const hn::Repartition<uint8_t, decltype(d)> du8;
  const hn::Repartition<int8_t, decltype(d)> di8;
  hn::Vec<decltype(d)> sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = hn::Set(d, i);
  const auto a = hn::BitCast(du8, hn::Set(d, out[0]));
  const auto b = hn::BitCast(di8, hn::Set(d, out[1]));
  for (int64_t r = 0; r < rounds; ++r) {
    for (int i = 0; i < kChains; ++i) sum[i] = hn::SumOfMulQuadAccumulate(d, a, b, sum[i]);
  }
  for (int i = 1; i < kChains; ++i) sum[0] = hn::Add(sum[0], sum[i]);
  hn::StoreU(sum[0], d, out);
  return rounds * kChains * static_cast<int64_t>(hn::Lanes(du8));
}

int64_t multiply_f32(int64_t rounds, float* out) {
  const hn::CappedTag<float, 16> d;
  hn::Vec<decltype(d)> sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = hn::Set(d, static_cast<float>(i));
  const auto a = hn::Set(d, out[0]), b = hn::Set(d, out[1]);
  for (int64_t r = 0; r < rounds; ++r) {
    for (int i = 0; i < kChains; ++i) sum[i] = hn::MulAdd(a, b, sum[i]);
  }
  for (int i = 1; i < kChains; ++i) sum[0] = hn::Add(sum[0], sum[i]);
  hn::StoreU(sum[0], d, out);
  return rounds * kChains * static_cast<int64_t>(hn::Lanes(d));
}

int64_t read_words(const uint64_t* words, int64_t n, uint64_t* out) {
  const hn::CappedTag<uint64_t, 8> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = a, c = a, e = a;
  for (int64_t i = 0; i + 4 * lanes <= n; i += 4 * lanes) {
    a = hn::Xor(a, hn::LoadU(d, words + i));
    b = hn::Xor(b, hn::LoadU(d, words + i + lanes));
    c = hn::Xor(c, hn::LoadU(d, words + i + 2 * lanes));
    e = hn::Xor(e, hn::LoadU(d, words + i + 3 * lanes));
  }
  hn::StoreU(hn::Xor(hn::Xor(a, b), hn::Xor(c, e)), d, out);
  return n * static_cast<int64_t>(sizeof(uint64_t));
}

}  // namespace HWY_NAMESPACE
}  // namespace ds4
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds4 {
namespace {

HWY_EXPORT(multiply_int8);
HWY_EXPORT(multiply_f32);
HWY_EXPORT(read_words);

// The best rate of what `work` says it did.
template <typename Work>
double best_rate(int n_runs, Work work) {
  double best = 0;
  for (int i = 0; i < n_runs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const auto done = static_cast<double>(work());
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, done / seconds.count());
  }
  return best;
}

MachineLimits measure() {
  alignas(64) int32_t ints[16] = {0x01020304, 0x05060708};
  alignas(64) float floats[16] = {1.0f, 0.5f};
  alignas(64) uint64_t read[8];
  const std::vector<uint64_t> words(size_t{32} << 20, 3);  // 256 MiB
  MachineLimits limits;
  limits.int8_products =
      best_rate(20, [&] { return HWY_DYNAMIC_DISPATCH(multiply_int8)(200000, ints); });
  limits.f32_products =
      best_rate(20, [&] { return HWY_DYNAMIC_DISPATCH(multiply_f32)(200000, floats); });
  limits.read_bytes = best_rate(
      8, [&] { return HWY_DYNAMIC_DISPATCH(read_words)(words.data(), std::ssize(words), read); });
  return limits;
}

}  // namespace

const MachineLimits& machine_limits() {
  static const MachineLimits limits = measure();
  return limits;
}

}  // namespace ds4
#endif
