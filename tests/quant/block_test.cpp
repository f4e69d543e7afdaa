// Encoders and decoders against the known answers, byte for byte and bit for bit, and on the rows
// that known answers do not hold: zeros, constants, extremes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "quant/codec.h"
#include "quant/fit.h"
#include "tests/quant/known_answers.h"

namespace ds4 {
namespace {

constexpr DType kBlockTypes[] = {DType::kQ8_0, DType::kQ4_K, DType::kQ2_K, DType::kIQ2_XXS,
                                 DType::kMXFP4};

std::vector<uint8_t> encode(DType type, const std::vector<float>& x, const float* importance) {
  const auto n = static_cast<int64_t>(x.size());
  std::vector<uint8_t> bytes(static_cast<size_t>(row_bytes(type, n)), 0xcd);
  const Result<void> done = encode_row(type, x.data(), importance, bytes.data(), n);
  EXPECT_TRUE(done) << done.error().message;
  return bytes;
}

std::vector<float> decode(DType type, const std::vector<uint8_t>& bytes, int64_t n) {
  std::vector<float> x(static_cast<size_t>(n));
  decode_row(type, bytes.data(), x.data(), n);
  return x;
}

// The bytes two independent implementations agreed on; any change in an encoder's order of
// operations shows here first.
TEST(BlockKnownAnswers, EncodersAgreeByteForByteAndDecodersBitForBit) {
  int n_checked = 0;
  for (const auto& c : known_answers("block_kat.jsonl")) {
    const std::vector<float> x = floats_from_hex(c["x_f32le"]);
    const std::vector<float> importance = floats_from_hex(c["importance_f32le"]);
    for (const auto& out : c["out"]) {
      SCOPED_TRACE(testing::Message() << "case " << c["case"] << " " << out["type"]
                                      << (out["imatrix"] ? " with importance" : ""));
      const Result<DType> type = dtype_from_name(std::string(out["type"]));
      ASSERT_TRUE(type);
      const float* u = out["imatrix"] ? importance.data() : nullptr;
      const std::vector<uint8_t> bytes = encode(*type, x, u);
      EXPECT_EQ(hex_from_bytes(bytes.data(), bytes.size()), std::string(out["block"]));
      const auto decoded = decode(*type, bytes_from_hex(out["block"]), 256);
      EXPECT_EQ(hex_from_bytes(decoded.data(), decoded.size() * sizeof(float)),
                std::string(out["decoded_f32le"]));
      ++n_checked;
    }
  }
  EXPECT_EQ(n_checked, 6 * 7);
}

// A zero row has a zero scale everywhere, and 1/0 must not leak into codes.
TEST(Blocks, ZeroRowsDecodeToZero) {
  const std::vector<float> zeros(512, 0.0f);
  const std::vector<float> ones(512, 1.0f);
  for (const DType type : kBlockTypes) {
    SCOPED_TRACE(dtype_name(type));
    for (const float* u : {ones.data(), zeros.data()}) {
      for (const float v : decode(type, encode(type, zeros, u), 512)) EXPECT_EQ(v, 0.0f);
    }
  }
}

// Values whose block range is subnormal make the inverse scale infinite; codes must stay defined
// (this runs under the undefined-behaviour sanitizer) and the result finite.
TEST(Blocks, ExtremeMagnitudesStayFinite) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  const std::vector<float> ones(256, 1.0f);
  for (const float scale : {1e-45f, 1e-39f, 1e-30f, 1e-15f, 1e-6f, 1.0f, 1e4f}) {
    std::vector<float> x(256);
    for (float& v : x) v = scale * normal(random);
    for (const DType type : kBlockTypes) {
      SCOPED_TRACE(testing::Message() << dtype_name(type) << " scale " << scale);
      for (const float v : decode(type, encode(type, x, ones.data()), 256)) {
        EXPECT_TRUE(std::isfinite(v));
      }
    }
  }
}

// Some weights never fire during calibration: their importance is zero, for whole blocks too.
TEST(Blocks, ZeroImportanceIsHarmless) {
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  std::vector<float> x(256);
  for (float& v : x) v = normal(random);
  std::vector<float> u(256, 0.0f);
  for (const int first_used : {256, 255, 128, 1}) {
    for (int i = first_used; i < 256; ++i) u[static_cast<size_t>(i)] = 1.0f;
    for (const DType type : {DType::kQ4_K, DType::kQ2_K, DType::kIQ2_XXS}) {
      for (const float v : decode(type, encode(type, x, u.data()), 256)) {
        EXPECT_TRUE(std::isfinite(v));
      }
    }
  }
}

// Relative error on Gaussian rows, near what each format's bits allow: catches a wrong sub-block or
// nibble that a single known answer might miss. Thresholds are 1.15 times what was measured.
TEST(Blocks, ErrorsMatchTheBitsSpent) {
  struct Case {
    DType type;
    double limit;
  };
  std::mt19937 random(42);
  std::normal_distribution<float> normal;
  std::vector<float> x(64 * 256);
  for (float& v : x) v = 0.02f * normal(random);
  const std::vector<float> ones(x.size(), 1.0f);
  for (const Case& c :
       {Case{DType::kQ8_0, 0.0065}, Case{DType::kQ4_K, 0.08}, Case{DType::kMXFP4, 0.13},
        Case{DType::kQ2_K, 0.34}, Case{DType::kIQ2_XXS, 0.44}}) {
    const auto y = decode(c.type, encode(c.type, x, ones.data()), static_cast<int64_t>(x.size()));
    double error = 0;
    double norm = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      error += (y[i] - x[i]) * (y[i] - x[i]);
      norm += x[i] * x[i];
    }
    const double relative = std::sqrt(error / norm);
    EXPECT_LE(relative, c.limit) << dtype_name(c.type);
    EXPECT_GE(relative, 0.6 * c.limit) << dtype_name(c.type);
  }
}

// MXFP4 values lie on the grid of the format, so encoding what was decoded gives the same values.
TEST(Blocks, Mxfp4IsIdempotent) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> x(256);
  for (float& v : x) v = normal(random);
  const auto once = decode(DType::kMXFP4, encode(DType::kMXFP4, x, nullptr), 256);
  EXPECT_EQ(decode(DType::kMXFP4, encode(DType::kMXFP4, once, nullptr), 256), once);
}

// Only the sign of the scale survives in the code of the peak: -127 or 127, never -128.
TEST(Blocks, Q8_0KeepsThePeak) {
  std::vector<float> x(32, 0.0f);
  x[5] = -3.0f;
  const auto bytes = encode(DType::kQ8_0, x, nullptr);
  EXPECT_EQ(static_cast<int8_t>(bytes[2 + 5]), -127);
  EXPECT_NEAR(decode(DType::kQ8_0, bytes, 32)[5], -3.0f, 3.0f * 0x1p-11f);
}

// Values that are exactly scale * code - min must come back with that line.
TEST(FitAffine, RecoversAnExactLine) {
  float x[32];
  float w[32];
  uint8_t codes[32];
  for (int i = 0; i < 32; ++i) {
    x[i] = 0.25f * static_cast<float>(i % 16) - 1.0f;
    w[i] = 1.0f;
  }
  AffineFit fit;
  fit_affine(1, 32, x, w, {}, &fit, codes);
  EXPECT_NEAR(fit.scale, 0.25f, 1e-6f);
  EXPECT_NEAR(fit.min, 1.0f, 1e-6f);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(codes[i], i % 16);
}

// A constant sub-block has no range: positive ones keep a line through zero, negative ones a
// minimum.
TEST(FitAffine, HandlesConstants) {
  const float w[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  uint8_t codes[16];
  float x[16];
  std::fill_n(x, 16, -2.0f);
  AffineFit negative, zero;
  fit_affine(1, 16, x, w, {}, &negative, codes);
  EXPECT_EQ(negative.scale * 15 - negative.min, -2.0f);
  std::fill_n(x, 16, 0.0f);
  fit_affine(1, 16, x, w, {}, &zero, codes);
  EXPECT_EQ(zero.scale, 0.0f);
  EXPECT_EQ(zero.min, 0.0f);
}

TEST(FitPositive, RecoversAnExactScaleAndIgnoresDust) {
  const float w[8] = {1, 2, 1, 1, 3, 1, 1, 1};
  float x[8];
  uint8_t codes[8];
  for (int i = 0; i < 8; ++i) x[i] = 0.5f * static_cast<float>(9 * i);
  EXPECT_NEAR(fit_positive(8, 63, x, w, codes), 0.5f, 1e-7f);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(codes[i], 9 * i);
  for (float& v : x) v = 9e-16f;
  EXPECT_EQ(fit_positive(8, 63, x, w, codes), 0.0f);
}

}  // namespace
}  // namespace ds4
