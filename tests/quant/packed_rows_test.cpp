// Packed KV and indexer rows hold what the official profile's roundings leave, bit for bit. The
// oracle is the round trip on f32 (quant/round_trip.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "quant/packed_index.h"
#include "quant/packed_kv.h"

namespace ds4 {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kWidth = 512;
constexpr int64_t kCodes = kWidth - kPackedKvRope;

std::vector<float> through_packed_kv(const std::vector<float>& row) {
  const int64_t width = std::ssize(row);
  std::vector<uint8_t> packed(static_cast<size_t>(packed_kv_bytes(width)), 0xa5);
  encode_packed_kv(row.data(), width, packed.data());
  std::vector<float> out(row.size());
  decode_packed_kv(packed.data(), out.data(), width);
  return out;
}

std::vector<float> through_packed_index(const std::vector<float>& row) {
  PackedIndexRow packed;
  encode_packed_index(row.data(), &packed);
  std::vector<float> out(row.size());
  decode_packed_index(packed, out.data());
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Every code under every scale that a finite block can have, beside a peak that fixes the scale.
TEST(PackedKv, HoldsEveryCodeUnderEveryScale) {
  for (int e = -22; e <= 119; ++e) {
    std::vector<float> row(kWidth, 0.0f);
    for (int shift : {0, 1}) {  // every code is elsewhere than at the peak's place in one of them
      for (int64_t i = 0; i < kCodes; ++i) {
        const auto code = static_cast<uint8_t>(i % 64 == 0 ? 0x7e : (i + shift) % 256);
        const float value = (code & 0x7f) == 0x7f ? -0.0f : e4m3_to_f32(code);
        row[static_cast<size_t>(i)] = std::ldexp(value, e);
      }
      std::vector<float> rounded = row;
      fp8_round_trip(rounded.data(), kCodes);
      ASSERT_TRUE(same_bits(rounded, row)) << "not what the round trip leaves, e " << e;
      ASSERT_TRUE(same_bits(through_packed_kv(row), row)) << e;
    }
  }
}

// Rounded blocks of any magnitude, those included whose peak was rounded down to a power of two.
TEST(PackedKv, HoldsWhatTheRoundTripLeaves) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int64_t width : {128, 192, 512}) {
    for (int exponent = -140; exponent <= 124; ++exponent) {
      std::vector<float> row(static_cast<size_t>(width));
      for (float& x : row) x = std::ldexp(normal(random), exponent);
      row[0] = std::ldexp(1.0f + 0x1p-20f * static_cast<float>(exponent % 3), exponent);
      fp8_round_trip(row.data(), width - kPackedKvRope);
      bf16_round_trip(row.data() + width - kPackedKvRope, kPackedKvRope);
      ASSERT_TRUE(same_bits(through_packed_kv(row), row)) << width << " at 2^" << exponent;
    }
  }
}

TEST(PackedKv, HoldsEveryBf16InTheRopeChannels) {
  for (uint32_t first = 0; first < 65536; first += kPackedKvRope) {
    std::vector<float> row(kWidth, 1.0f);
    for (uint32_t i = 0; i < kPackedKvRope; ++i) {
      row[static_cast<size_t>(kCodes + i)] = bf16_to_f32(static_cast<uint16_t>(first + i));
    }
    ASSERT_TRUE(same_bits(through_packed_kv(row), row)) << first;
  }
}

// Damage stays visible: the block is NaN as the round trip makes it, its neighbours are as they
// were.
TEST(PackedKv, KeepsNanBlocks) {
  for (float bad : {kNaN, INFINITY, -INFINITY}) {
    std::vector<float> row(kWidth, 0.5f);
    row[70] = bad;
    fp8_round_trip(row.data(), kCodes);
    ASSERT_TRUE(std::isnan(row[64]) && std::isnan(row[127]) && row[128] == 0.5f);
    EXPECT_TRUE(same_bits(through_packed_kv(row), row));
  }
}

TEST(PackedIndex, HoldsEveryCodeUnderEveryScale) {
  for (int e = -126; e <= 124; ++e) {
    std::vector<float> row(kPackedIndexElems);
    for (size_t i = 0; i < row.size(); ++i) {
      const auto code = static_cast<uint8_t>(i % 32 == 31 ? 7 : i % 16);
      row[i] = std::ldexp(e2m1_to_f32(code), e + static_cast<int>(i / 32 % 2));
    }
    std::vector<float> rounded = row;
    fp4_round_trip(rounded.data(), kPackedIndexElems);
    ASSERT_TRUE(same_bits(rounded, row)) << "not what the round trip leaves, e " << e;
    ASSERT_TRUE(same_bits(through_packed_index(row), row)) << e;
  }
}

TEST(PackedIndex, HoldsWhatTheRoundTripLeaves) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (int exponent = -148; exponent <= 122; ++exponent) {
    for (int i = 0; i < 20; ++i) {
      std::vector<float> row(kPackedIndexElems);
      for (float& x : row) x = std::ldexp(normal(random), exponent);
      indexer_round_trip(row.data());
      ASSERT_TRUE(same_bits(through_packed_index(row), row)) << exponent;
    }
  }
}

TEST(PackedIndex, KeepsNanBlocks) {
  std::vector<float> row(kPackedIndexElems, 0.5f);
  row[40] = kNaN;
  fp4_round_trip(row.data(), kPackedIndexElems);
  ASSERT_TRUE(std::isnan(row[32]) && std::isnan(row[63]) && row[64] == 0.5f && row[31] == 0.5f);
  EXPECT_TRUE(same_bits(through_packed_index(row), row));
}

}  // namespace
}  // namespace ds4
