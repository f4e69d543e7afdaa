// The loops that machine limits are measured with do the work they are timed for: every byte is
// read, every product is added.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "machine/limits.h"

namespace ds4::machine {
namespace {

std::vector<std::byte> random_bytes(int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(static_cast<size_t>(n));
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

// Against a plain sum, at lengths with and without a tail after the last whole set of vectors.
TEST(MachineLoops, ReadEveryWord) {
  const std::vector<std::byte> bytes = random_bytes(20000, 1);
  for (const int64_t n : {0, 8, 64, 768, 776, 6144, 19992}) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i += 8) {
      uint64_t word;
      std::memcpy(&word, bytes.data() + i, 8);
      sum += word;
    }
    EXPECT_EQ(read_bytes(bytes.data(), n), sum) << n;
  }
}

// The second operand is a vector of its first values, of whatever length the machine's vectors
// have: with a pattern that repeats every 16 bytes the sum is the same on all of them. Unsigned
// values stay below 128, where AVX2's pairwise sums of 16 bits cannot saturate.
TEST(MachineLoops, AddEveryInt8Product) {
  std::vector<std::byte> operands = random_bytes(kOperandBytes, 2);
  int64_t sum = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    operands[i] = i < 16 ? operands[i] & std::byte{127} : operands[i % 16];
    const auto value = static_cast<int64_t>(operands[i]);
    sum += value * value;
  }
  EXPECT_EQ(int8_multiply_adds(operands.data(), 1), sum);
  EXPECT_EQ(int8_multiply_adds(operands.data(), 3), 3 * sum);
}

// Small whole numbers: exact in any order.
TEST(MachineLoops, AddEveryF32Product) {
  std::vector<std::byte> operands(static_cast<size_t>(kOperandBytes));
  float sum = 0;
  for (int64_t i = 0; i < kF32PerRound; ++i) {
    const auto value = static_cast<float>(i % 4 + 1);
    std::memcpy(operands.data() + 4 * i, &value, 4);
    sum += value * value;
  }
  EXPECT_EQ(f32_multiply_adds(operands.data(), 1), sum);
  EXPECT_EQ(f32_multiply_adds(operands.data(), 2), 2 * sum);
}

TEST(MachineLimits, CanBeStopped) {
  int calls = 0;
  const auto limits = measure({.n_threads = 1,
                               .memory_bytes = 1 << 20,
                               .repeat = 1,
                               .seconds = 0,
                               .before = [&](const char*) { return ++calls == 3; }});
  ASSERT_FALSE(limits);
  EXPECT_EQ(limits.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(calls, 3);
}

TEST(MachineLimits, SayWhatTheyWereMeasuredWith) {
  const auto limits = measure({.n_threads = 3, .memory_bytes = 1 << 20, .repeat = 3, .seconds = 0});
  ASSERT_TRUE(limits) << limits.error().message;
  EXPECT_EQ(limits->n_threads, 3);
  EXPECT_FALSE(limits->target.empty());
  for (const Limit* limit : {&limits->memory_read, &limits->memory_read_large, &limits->cache_read,
                             &limits->int8, &limits->f32}) {
    EXPECT_GT(limit->one.median, 0);
    EXPECT_GE(limit->one.best, limit->one.median);
    EXPECT_GE(limit->all.best, limit->all.median);
  }
}

}  // namespace
}  // namespace ds4::machine
