// BC-21: importance matrices as calibration really leaves them. Columns that never fired, experts
// that were never chosen, one sum that overflowed, a vector of another matrix: elsewhere these made
// blocks of NaN that nobody saw before the model spoke.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "quant/codec.h"
#include "tensor/dtype.h"

namespace ds4 {
namespace {

constexpr int64_t kCols = 4096;
constexpr int64_t kRows = 64;
constexpr DType kWeighted[] = {DType::kQ2_K, DType::kQ4_K, DType::kIQ2_XXS};

std::vector<float> gaussian_rows(uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 0.02f);
  std::vector<float> rows(static_cast<size_t>(kRows * kCols));
  for (float& v : rows) v = normal(random);
  return rows;
}

// Root mean square error of all rows after encoding and decoding; not finite if any value is not.
double rmse(DType type, const std::vector<float>& rows, const std::vector<float>& importance) {
  std::vector<std::byte> encoded(static_cast<size_t>(row_bytes(type, kCols)));
  std::vector<float> decoded(static_cast<size_t>(kCols));
  double sum = 0;
  for (int64_t r = 0; r < kRows; ++r) {
    const float* row = rows.data() + r * kCols;
    const auto done = encode_row(type, row, importance.data(), encoded.data(), kCols);
    EXPECT_TRUE(done) << done.error().message;
    decode_row(type, encoded.data(), decoded.data(), kCols);
    for (int64_t i = 0; i < kCols; ++i) {
      const double error = double{decoded[static_cast<size_t>(i)]} - row[i];
      sum += error * error;
    }
  }
  return std::sqrt(sum / static_cast<double>(kRows * kCols));
}

class ImportanceWithZeros : public testing::TestWithParam<DType> {};

// 1,024 of 4,096 columns never fired, singly, by sub-blocks and in whole blocks of 256. The loss
// over all columns stays within 1.5 times that of no importance at all (all ones).
TEST_P(ImportanceWithZeros, UnseenColumnsCostLittle) {
  const std::vector<float> rows = gaussian_rows(1);
  const double plain = rmse(GetParam(), rows, std::vector<float>(kCols, 1.0f));
  ASSERT_GT(plain, 0);
  for (const int stretch : {1, 8, 32, 256}) {
    std::vector<float> importance(kCols, 1.0f);
    for (int64_t i = 0; i < kCols; ++i) {
      if (i / stretch % 4 == 0) importance[static_cast<size_t>(i)] = 0.0f;
    }
    const double got = rmse(GetParam(), rows, importance);
    EXPECT_LE(got, 1.5 * plain) << "zeros in stretches of " << stretch;
  }
}

// An expert that calibration never chose: all zeros. The encoder falls back to its own weights.
TEST_P(ImportanceWithZeros, AnExpertNeverSeenIsEncodedAsWithoutImportance) {
  const std::vector<float> rows = gaussian_rows(2);
  const double plain = rmse(GetParam(), rows, std::vector<float>(kCols, 1.0f));
  EXPECT_LE(rmse(GetParam(), rows, std::vector<float>(kCols, 0.0f)), 1.5 * plain);
}

// Counts of a long calibration next to zeros: the ratio of weights spans what f32 can hold.
TEST_P(ImportanceWithZeros, ExtremeWeightsStayFinite) {
  const std::vector<float> rows = gaussian_rows(3);
  for (const float large : {1e-38f, 1e-20f, 1e20f, 1e37f}) {
    std::vector<float> importance(kCols, 0.0f);
    for (size_t i = 0; i < importance.size(); i += 3) importance[i] = large;
    EXPECT_TRUE(std::isfinite(rmse(GetParam(), rows, importance))) << large;
  }
}

// What has no meaning is refused by column, before anything is written.
TEST_P(ImportanceWithZeros, InfiniteOrNegativeWeightsAreRefused) {
  const std::vector<float> rows = gaussian_rows(4);
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf(""), -1.0f}) {
    std::vector<float> importance(kCols, 1.0f);
    importance[1000] = bad;
    std::vector<std::byte> out(static_cast<size_t>(row_bytes(GetParam(), kCols)), std::byte{0xCD});
    const auto done = encode_row(GetParam(), rows.data(), importance.data(), out.data(), kCols);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(done.error().message.find("column 1000"), std::string::npos) << done.error().message;
    EXPECT_EQ(out, std::vector<std::byte>(out.size(), std::byte{0xCD}));
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, ImportanceWithZeros, testing::ValuesIn(kWeighted),
                         [](const auto& param) { return std::string(dtype_name(param.param)); });

}  // namespace
}  // namespace ds4
