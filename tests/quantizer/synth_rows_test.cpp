// Random rows in every type, decoded: the mean and spread that was asked for, no NaN, no constant
// stretch, every code in use, and bytes that follow from the key alone.
#include "quantizer/synth_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include "quant/codec.h"
#include "quant/iq2_xxs.h"
#include "quant/mxfp4.h"
#include "quant/q8_0.h"

namespace ds4 {
namespace {

constexpr int64_t kCols = 4096;
constexpr int64_t kRows = 100;

constexpr DType kTypes[] = {DType::kF32,  DType::kF16,  DType::kBF16,    DType::kQ8_0,
                            DType::kQ2_K, DType::kQ4_K, DType::kIQ2_XXS, DType::kMXFP4};

std::vector<std::byte> row_of(const SynthRows& rows, DType type, uint64_t key) {
  std::vector<std::byte> bytes(static_cast<size_t>(row_bytes(type, kCols)));
  rows.fill(key, kCols, bytes.data());
  return bytes;
}

std::vector<float> decoded(const SynthRows& rows, DType type, uint64_t key) {
  const auto bytes = row_of(rows, type, key);
  std::vector<float> values(kCols);
  decode_row(type, bytes.data(), values.data(), kCols);
  return values;
}

// Deviations from those of Pro's longest rows to those of the embedding. 409600 values: the spread
// of a sample is known to 0.2 %, its mean to 0.5 % of the deviation (three sigma); the scale table
// of a block format and its rounding to F16 add to the first.
TEST(SynthRows, HaveTheSpreadThatWasAskedFor) {
  for (const DType type : kTypes) {
    for (const double deviation : {1 / std::sqrt(28672.0), 1 / std::sqrt(2048.0), 1.0}) {
      SCOPED_TRACE(std::string(dtype_name(type)) + " " + std::to_string(deviation));
      const SynthRows rows(type, deviation);
      double sum = 0, squares = 0, max = 0;
      for (int64_t row = 0; row < kRows; ++row) {
        for (const float value : decoded(rows, type, row_key(7, row))) {
          ASSERT_TRUE(std::isfinite(value));
          sum += value;
          squares += static_cast<double>(value) * value;
          max = std::max(max, std::abs(static_cast<double>(value)));
        }
      }
      const double n = kRows * kCols;
      EXPECT_NEAR(sum / n, 0, 0.006 * deviation);
      EXPECT_NEAR(std::sqrt(squares / n), deviation, 0.02 * deviation);
      EXPECT_LT(max, 8 * deviation);
    }
  }
}

// Q2_K has four values where two neighbouring sub-blocks share a scale, and one may be missing.
TEST(SynthRows, HaveNoConstantStretch) {
  for (const DType type : kTypes) {
    SCOPED_TRACE(std::string(dtype_name(type)));
    const SynthRows rows(type, 0.02);
    for (int64_t row = 0; row < kRows; ++row) {
      const auto values = decoded(rows, type, row_key(3, row));
      for (int64_t at = 0; at < kCols; at += 32) {
        const std::set<float> distinct(values.begin() + at, values.begin() + at + 32);
        EXPECT_GE(distinct.size(), 3u) << "row " << row << " from " << at;
      }
    }
  }
}

// Also with a key that differs in one bit, or in the row alone.
TEST(SynthRows, FollowFromTheirKey) {
  for (const DType type : kTypes) {
    SCOPED_TRACE(std::string(dtype_name(type)));
    const SynthRows rows(type, 0.02);
    const auto bytes = row_of(rows, type, 5);
    EXPECT_EQ(bytes, row_of(SynthRows(type, 0.02), type, 5));
    for (const uint64_t other : {uint64_t{4}, uint64_t{7}, uint64_t{5} | uint64_t{1} << 63}) {
      const auto changed = row_of(rows, type, other);
      int64_t n_equal = 0;
      for (size_t i = 0; i < bytes.size(); ++i) n_equal += bytes[i] == changed[i] ? 1 : 0;
      // F32 and its like share sign and exponent bytes by chance.
      EXPECT_LT(n_equal, static_cast<int64_t>(bytes.size()) * 2 / 5);
    }
  }
  EXPECT_NE(row_key(1, 0), row_key(1, 1));
  EXPECT_NE(tensor_key(1, "blk.0.attn_kv.weight"), tensor_key(1, "blk.1.attn_kv.weight"));
  EXPECT_NE(tensor_key(1, "blk.0.attn_kv.weight"), tensor_key(2, "blk.0.attn_kv.weight"));
}

// What the kernels will meet: all of a format's codes but Q8_0's -128, which no encoder writes.
TEST(SynthRows, UseEveryCode) {
  std::set<int> q8_0, grid, mxfp4, exponents;
  const SynthRows eights(DType::kQ8_0, 0.02), twos(DType::kIQ2_XXS, 0.02);
  const SynthRows fours(DType::kMXFP4, 0.02);
  for (int64_t row = 0; row < 20; ++row) {
    const auto a = row_of(eights, DType::kQ8_0, row_key(1, row));
    for (size_t at = 0; at < a.size(); at += sizeof(BlockQ8_0)) {
      BlockQ8_0 block;
      std::memcpy(&block, &a[at], sizeof(block));
      q8_0.insert(block.q, block.q + kQ8_0Elems);
    }
    const auto b = row_of(twos, DType::kIQ2_XXS, row_key(1, row));
    for (size_t at = 0; at < b.size(); at += sizeof(BlockIq2Xxs)) {
      BlockIq2Xxs block;
      std::memcpy(&block, &b[at], sizeof(block));
      for (int i = 0; i < kIq2XxsGroups; ++i) {
        const Iq2XxsGroup group = iq2_xxs_group(block, i);
        EXPECT_GE(group.scale(), 8u) << "an encoder's largest scale is 15";
        for (int octet = 0; octet < 4; ++octet)
          grid.insert(static_cast<int>(group.grid_index(octet)));
      }
    }
    const auto c = row_of(fours, DType::kMXFP4, row_key(1, row));
    for (size_t at = 0; at < c.size(); at += sizeof(BlockMxfp4)) {
      BlockMxfp4 block;
      std::memcpy(&block, &c[at], sizeof(block));
      exponents.insert(block.e);
      for (const uint8_t codes : block.codes) mxfp4.insert({codes & 15, codes >> 4});
    }
  }
  EXPECT_EQ(q8_0.size(), 255u);
  EXPECT_FALSE(q8_0.contains(-128));
  EXPECT_EQ(grid.size(), 256u);
  EXPECT_EQ(mxfp4.size(), 16u);
  EXPECT_EQ(exponents.size(), 2u);
}

}  // namespace
}  // namespace ds4
