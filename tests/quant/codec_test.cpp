// The dispatch by DType: names, refusals, and the plain types.
#include "quant/codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/scalar.h"

namespace ds4 {
namespace {

constexpr DType kAll[] = {DType::kF32,  DType::kF16,  DType::kBF16,    DType::kQ8_0,
                          DType::kQ4_K, DType::kQ2_K, DType::kIQ2_XXS, DType::kMXFP4};
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(DtypeFromName, IgnoresCaseAndSeparators) {
  for (const DType type : kAll) EXPECT_EQ(dtype_from_name(dtype_name(type)).value(), type);
  EXPECT_EQ(dtype_from_name("iq2-xxs").value(), DType::kIQ2_XXS);
  EXPECT_EQ(dtype_from_name("Q80").value(), DType::kQ8_0);
  EXPECT_EQ(dtype_from_name("bf_16").value(), DType::kBF16);
}

TEST(DtypeFromName, NamesTheChoicesWhenItFails) {
  for (const char* name : {"", "q5_k", "i32", "q8_0x", "f 32"}) {
    const auto type = dtype_from_name(name);
    ASSERT_FALSE(type) << name;
    EXPECT_EQ(type.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(type.error().message.find("IQ2_XXS"), std::string::npos);
    EXPECT_NE(type.error().message.find(name), std::string::npos);
  }
}

TEST(NeedsImportance, OnlyIq2Xxs) {
  for (const DType type : kAll) EXPECT_EQ(needs_importance(type), type == DType::kIQ2_XXS);
}

struct Refusal {
  DType type;
  int64_t n;
  float value;       // at column 3
  float importance;  // at column 5; negative infinity: no vector at all
  ErrorCode code;
  const char* says;
};

TEST(EncodeRow, RefusesWhatHasNoMeaningAndWritesNothing) {
  const Refusal cases[] = {
      {DType::kI32, 256, 1, 1, ErrorCode::kInvalidArgument, "I32"},
      {DType::kQ8_0, 33, 1, 1, ErrorCode::kInvalidArgument, "multiple of 32"},
      {DType::kQ4_K, 128, 1, 1, ErrorCode::kInvalidArgument, "found 128"},
      {DType::kIQ2_XXS, 256, 1, -kInfinity, ErrorCode::kInvalidArgument, "found none"},
      {DType::kIQ2_XXS, 256, 1, -1, ErrorCode::kInvalidArgument, "column 5"},
      {DType::kQ2_K, 256, 1, kNaN, ErrorCode::kInvalidArgument, "column 5"},
      {DType::kQ4_K, 256, 1, kInfinity, ErrorCode::kInvalidArgument, "column 5"},
      {DType::kQ8_0, 256, kNaN, 1, ErrorCode::kNonFinite, "column 3"},
      {DType::kMXFP4, 256, kInfinity, 1, ErrorCode::kNonFinite, "column 3"},
  };
  for (const Refusal& c : cases) {
    SCOPED_TRACE(testing::Message() << dtype_name(c.type) << " " << c.says);
    std::vector<float> x(256, 1.0f);
    std::vector<float> u(256, 1.0f);
    x[3] = c.value;
    u[5] = c.importance;
    std::vector<uint8_t> out(2048, 0xcd);
    const auto done = encode_row(c.type, x.data(), c.importance == -kInfinity ? nullptr : u.data(),
                                 out.data(), c.n);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, c.code);
    EXPECT_NE(done.error().message.find(c.says), std::string::npos) << done.error().message;
    EXPECT_EQ(out, std::vector<uint8_t>(2048, 0xcd));
  }
}

// Plain types keep NaN and infinity, and work from odd addresses (a checkpoint's tensors may lie
// there).
TEST(Codec, PlainTypesRoundTripFromOddAddresses) {
  const float x[5] = {1.0f, -0.0f, kInfinity, 1.0f / 3.0f, 65504.0f};
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    unsigned char bytes[64];
    ASSERT_TRUE(encode_row(type, x, nullptr, bytes + 1, 5));
    float y[5];
    decode_row(type, bytes + 1, y, 5);
    EXPECT_EQ(y[0], 1.0f);
    EXPECT_TRUE(y[1] == 0.0f && std::signbit(y[1]));
    EXPECT_EQ(y[2], kInfinity);
    EXPECT_NEAR(y[3], x[3], 0x1p-9f);
    EXPECT_NEAR(y[4], x[4], 0x1p-9f * x[4]);
  }
}

TEST(Codec, EmptyRowsAreAllowed) {
  for (const DType type : kAll) {
    const float u = 1.0f;
    EXPECT_TRUE(encode_row(type, nullptr, &u, nullptr, 0));
    decode_row(type, nullptr, nullptr, 0);
  }
}

// A row of many blocks is the blocks one after the other: nothing leaks across a boundary.
TEST(Codec, RowsAreTheirBlocksInOrder) {
  std::vector<float> x(768);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(0.1f * static_cast<float>(i * i % 977));
  const std::vector<float> u(768, 1.0f);
  for (const DType type : kAll) {
    SCOPED_TRACE(dtype_name(type));
    const auto bytes = static_cast<size_t>(row_bytes(type, 256));
    std::vector<uint8_t> whole(3 * bytes);
    std::vector<uint8_t> parts(3 * bytes);
    ASSERT_TRUE(encode_row(type, x.data(), u.data(), whole.data(), 768));
    for (size_t b = 0; b < 3; ++b) {
      ASSERT_TRUE(encode_row(type, &x[256 * b], u.data(), &parts[bytes * b], 256));
    }
    EXPECT_EQ(whole, parts);
    std::vector<float> y(768);
    std::vector<float> z(768);
    decode_row(type, whole.data(), y.data(), 768);
    for (size_t b = 0; b < 3; ++b) decode_row(type, &parts[bytes * b], &z[256 * b], 256);
    EXPECT_EQ(y, z);
  }
}

TEST(CodecDeathTest, IntegersAreNoRowsOfFloats) {
  int32_t ids[1] = {7};
  float x[1];
  EXPECT_DEATH(decode_row(DType::kI32, ids, x, 1), "floating type");
  EXPECT_DEATH(decode_row(DType::kQ8_0, ids, x, 1), "block_elems");
}

}  // namespace
}  // namespace ds4
