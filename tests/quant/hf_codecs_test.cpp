// The official checkpoint's FP8 and FP4 matrices: values, tiles, lossless repacking, damaged bytes.
#include "quant/hf_codecs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "base/scalar.h"

namespace ds4 {
namespace {

struct Bytes {
  std::vector<uint8_t> codes;
  std::vector<uint8_t> scales;
};

// Random codes without NaN and scales around one.
Bytes random_fp8(int64_t rows, int64_t cols, unsigned seed) {
  std::mt19937 random(seed);
  Bytes b;
  b.codes.resize(static_cast<size_t>(rows * cols));
  for (uint8_t& c : b.codes) {
    c = static_cast<uint8_t>(random());
    if ((c & 0x7f) == 0x7f) c = 0x7e;
  }
  b.scales.resize(static_cast<size_t>((rows + 127) / 128 * ((cols + 127) / 128)));
  for (uint8_t& s : b.scales) s = static_cast<uint8_t>(110 + random() % 30);
  return b;
}

Bytes random_fp4(int64_t rows, int64_t cols, unsigned seed) {
  std::mt19937 random(seed);
  Bytes b;
  b.codes.resize(static_cast<size_t>(rows * cols / 2));
  for (uint8_t& c : b.codes) c = static_cast<uint8_t>(random());
  b.scales.resize(static_cast<size_t>(rows * cols / 32));
  for (uint8_t& s : b.scales) s = static_cast<uint8_t>(random() % 253);
  return b;
}

template <typename Matrix>
Matrix view(const Bytes& b, int64_t rows, int64_t cols) {
  return {.codes = b.codes.data(), .scales = b.scales.data(), .rows = rows, .cols = cols};
}

// Each value times the scale of its own 128x128 tile, also where the last tile is cut short.
TEST(HfFp8, UsesTheScaleOfTheTile) {
  for (const int64_t cols : {int64_t{256}, int64_t{300}}) {
    const Bytes b = random_fp8(257, cols, 1);
    const auto m = view<HfFp8Matrix>(b, 257, cols);
    std::vector<float> row(static_cast<size_t>(cols));
    for (const int64_t r : {0, 127, 128, 256}) {
      ASSERT_TRUE(decode_hf_row(m, r, row.data()));
      for (int64_t c = 0; c < cols; ++c) {
        const uint8_t scale = b.scales[static_cast<size_t>(r / 128 * m.scale_cols() + c / 128)];
        const float code = e4m3_to_f32(b.codes[static_cast<size_t>(r * cols + c)]);
        ASSERT_EQ(row[static_cast<size_t>(c)], std::ldexp(code, scale - 127)) << r << " " << c;
      }
    }
  }
}

TEST(HfFp8, ConvertsToBf16WithoutLoss) {
  const Bytes b = random_fp8(128, 384, 2);
  const auto m = view<HfFp8Matrix>(b, 128, 384);
  std::vector<float> row(384);
  std::vector<uint16_t> bf16(384);
  for (int64_t r = 0; r < 128; ++r) {
    ASSERT_TRUE(decode_hf_row(m, r, row.data()));
    ASSERT_TRUE(hf_row_to_bf16(m, r, bf16.data()));
    for (size_t c = 0; c < 384; ++c) ASSERT_EQ(bf16_to_f32(bf16[c]), row[c]);
  }
}

// All 254 finite codes under every scale: exact in f32 or refused, exact in bf16 or refused.
TEST(HfFp8, EveryCodeUnderEveryScaleIsExactOrRefused) {
  Bytes b;
  for (int c = 0; c < 256; ++c) b.codes.push_back((c & 0x7f) == 0x7f ? 0 : static_cast<uint8_t>(c));
  b.codes.resize(256 * 1);
  b.scales.resize(2);
  std::vector<float> row(256);
  std::vector<uint16_t> bf16(256);
  for (int s = 0; s < 256; ++s) {
    SCOPED_TRACE(s);
    b.scales.assign(2, static_cast<uint8_t>(s));
    const auto m = view<HfFp8Matrix>(b, 1, 256);
    const auto decoded = decode_hf_row(m, 0, row.data());
    EXPECT_EQ(decoded.has_value(), s <= 246);  // 448 * 2^(246-127) is the last below 2^128
    const auto converted = hf_row_to_bf16(m, 0, bf16.data());
    EXPECT_EQ(converted.has_value(), s >= 3 && s <= 246);  // 2^-9 * 2^(3-127) = 2^-133
    for (size_t c = 0; decoded && c < 256; ++c) {
      ASSERT_EQ(double{row[c]}, std::ldexp(double{e4m3_to_f32(b.codes[c])}, s - 127));
      if (converted) {
        ASSERT_EQ(bf16_to_f32(bf16[c]), row[c]);
      }
    }
  }
}

TEST(HfFp8, NamesTheDamage) {
  Bytes b = random_fp8(256, 256, 3);
  b.codes[130 * 256 + 200] = 0xff;
  b.scales[2] = 255;  // tile of rows 128.., columns 0..127
  auto m = view<HfFp8Matrix>(b, 256, 256);
  std::vector<float> row(256);
  EXPECT_TRUE(decode_hf_row(m, 0, row.data()));
  auto bad_scale = decode_hf_row(m, 130, row.data());
  ASSERT_FALSE(bad_scale);
  EXPECT_EQ(bad_scale.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(bad_scale.error().message.find("row 130 column 0"), std::string::npos);
  b.scales[2] = 127;
  auto bad_code = decode_hf_row(m, 130, row.data());
  ASSERT_FALSE(bad_code);
  EXPECT_EQ(bad_code.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(bad_code.error().message.find("row 130 column 200"), std::string::npos);
  b.codes[130 * 256 + 200] = 0x7e;
  b.scales[3] = 254;
  auto beyond = decode_hf_row(m, 130, row.data());
  ASSERT_FALSE(beyond);
  EXPECT_NE(beyond.error().message.find("2^127"), std::string::npos) << beyond.error().message;
}

// Low nibble first: element 2j below element 2j+1.
TEST(HfFp4, LowNibbleIsTheEvenElement) {
  Bytes b{.codes = std::vector<uint8_t>(16, 0), .scales = {128}};
  b.codes[0] = 0x52;  // element 0: code 2 = 1, element 1: code 5 = 3
  b.codes[15] = 0xf1;
  float row[32];
  ASSERT_TRUE(decode_hf_row(view<HfFp4Matrix>(b, 1, 32), 0, row));
  EXPECT_EQ(row[0], 2.0f);
  EXPECT_EQ(row[1], 6.0f);
  EXPECT_EQ(row[30], 1.0f);
  EXPECT_EQ(row[31], -12.0f);
}

// Same values out of the repacked block as out of the source, for every code and finite scale.
TEST(HfFp4, RepackingToMxfp4IsLossless) {
  const Bytes b = random_fp4(64, 256, 4);
  const auto m = view<HfFp4Matrix>(b, 64, 256);
  std::vector<float> row(256);
  std::vector<BlockMxfp4> blocks(8);
  std::vector<float> repacked(256);
  for (int64_t r = 0; r < 64; ++r) {
    ASSERT_TRUE(decode_hf_row(m, r, row.data()));
    ASSERT_TRUE(hf_row_to_mxfp4(m, r, blocks.data()));
    for (size_t i = 0; i < 8; ++i) decode_block(blocks[i], &repacked[32 * i]);
    for (size_t c = 0; c < 256; ++c) {
      ASSERT_EQ(repacked[c], row[c]);
      ASSERT_EQ(std::signbit(repacked[c]), std::signbit(row[c]));
    }
  }
}

TEST(HfFp4, RefusesNaNScales) {
  Bytes b = random_fp4(2, 64, 5);
  b.scales[3] = 255;
  const auto m = view<HfFp4Matrix>(b, 2, 64);
  float row[64];
  BlockMxfp4 blocks[2];
  EXPECT_TRUE(decode_hf_row(m, 0, row));
  const auto decoded = decode_hf_row(m, 1, row);
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(decoded.error().message.find("row 1 column 32"), std::string::npos);
  EXPECT_FALSE(hf_row_to_mxfp4(m, 1, blocks));
}

}  // namespace
}  // namespace ds4
