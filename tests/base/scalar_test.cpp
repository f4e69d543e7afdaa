// The small formats over all their codes, and the roundings into them against a search for the
// nearest code that uses no bit tricks.
#include "base/scalar.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace ds4 {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Value of a code written from the definition: sign, exponent field, mantissa field.
double small_float(uint32_t code, int exponent_bits, int mantissa_bits, int bias) {
  const uint32_t mantissa = code & ((1u << mantissa_bits) - 1);
  const uint32_t exponent = code >> mantissa_bits & ((1u << exponent_bits) - 1);
  const bool negative = (code >> (exponent_bits + mantissa_bits) & 1u) != 0;
  const double fraction = std::ldexp(static_cast<double>(mantissa), -mantissa_bits);
  const double magnitude = exponent == 0
                               ? std::ldexp(fraction, 1 - bias)
                               : std::ldexp(1 + fraction, static_cast<int>(exponent) - bias);
  return negative ? -magnitude : magnitude;
}

// Values between two neighbouring positive codes: the ends, the middle, and one float to each side
// of the middle. Nearest wins, the middle goes to the even code.
template <typename Decode, typename Encode>
void expect_nearest_even(uint32_t last_code, uint32_t sign_bit, Decode decode, Encode encode) {
  for (uint32_t code = 0; code < last_code; ++code) {
    const float low = decode(code);
    const float high = decode(code + 1);
    const float middle = static_cast<float>((double{low} + high) / 2);
    ASSERT_EQ(double{middle}, (double{low} + high) / 2);
    const uint32_t even = code % 2 == 0 ? code : code + 1;
    ASSERT_EQ(encode(low), code);
    ASSERT_EQ(encode(middle), even) << middle;
    ASSERT_EQ(encode(std::nextafter(middle, low)), code) << middle;
    ASSERT_EQ(encode(std::nextafter(middle, high)), code + 1) << middle;
    ASSERT_EQ(encode(-middle), even | sign_bit) << -middle;
    ASSERT_EQ(encode(std::nextafter(-middle, -high)), (code + 1) | sign_bit) << -middle;
  }
}

TEST(F16, EveryCodeHasItsValue) {
  for (uint32_t h = 0; h < 0x10000; ++h) {
    const float v = f16_to_f32(static_cast<uint16_t>(h));
    const uint32_t magnitude = h & 0x7fff;
    ASSERT_EQ(std::signbit(v), h >= 0x8000) << h;
    if (magnitude > 0x7c00) {
      ASSERT_TRUE(std::isnan(v)) << h;
    } else if (magnitude == 0x7c00) {
      ASSERT_TRUE(std::isinf(v)) << h;
    } else {
      ASSERT_EQ(double{v}, small_float(h, 5, 10, 15)) << h;
      ASSERT_EQ(f32_to_f16(v), h);
    }
  }
}

TEST(F16, RoundsToNearestEven) {
  expect_nearest_even(
      0x7bff, 0x8000, [](uint32_t c) { return f16_to_f32(static_cast<uint16_t>(c)); }, f32_to_f16);
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);  // the tie above the largest value overflows
  EXPECT_EQ(f32_to_f16(-kInfinity), 0xfc00);
  EXPECT_EQ(f32_to_f16(1e-45f), 0x0000);
  EXPECT_EQ(f32_to_f16(-1e-45f), 0x8000);
  EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(kNaN))));
}

TEST(Bf16, EveryCodeHasItsValueAndComesBack) {
  for (uint32_t b = 0; b < 0x10000; ++b) {
    const float v = bf16_to_f32(static_cast<uint16_t>(b));
    ASSERT_EQ(std::bit_cast<uint32_t>(v), b << 16);
    const uint32_t expected = std::isnan(v) ? b | 0x40 : b;
    ASSERT_EQ(f32_to_bf16(v), expected);
  }
}

TEST(Bf16, RoundsToNearestEven) {
  for (uint32_t b = 0; b < 0x7f80; ++b) {
    const uint32_t half = b << 16 | 0x8000;
    const uint32_t even = b % 2 == 0 ? b : b + 1;
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(half)), even);
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(half - 1)), b);
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(half + 1)), b + 1);
    ASSERT_EQ(f32_to_bf16(-std::bit_cast<float>(half)), even | 0x8000);
  }
  // The smallest NaN payload must not round down to infinity.
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(E4m3, EveryCodeHasItsValue) {
  int positive = 0;
  for (uint32_t c = 0; c < 256; ++c) {
    const float v = e4m3_to_f32(static_cast<uint8_t>(c));
    if ((c & 0x7f) == 0x7f) {
      ASSERT_TRUE(std::isnan(v));
      continue;
    }
    ASSERT_EQ(double{v}, small_float(c, 4, 3, 7)) << c;
    ASSERT_EQ(std::signbit(v), c >= 128);
    ASSERT_EQ(f32_to_e4m3(v), c);
    positive += v > 0 ? 1 : 0;
  }
  EXPECT_EQ(positive, 126);
  EXPECT_EQ(e4m3_to_f32(0x7e), 448.0f);
  EXPECT_EQ(e4m3_to_f32(0x01), 0x1p-9f);
}

TEST(E4m3, RoundsToNearestEvenAndClamps) {
  expect_nearest_even(
      0x7e, 0x80, [](uint32_t c) { return e4m3_to_f32(static_cast<uint8_t>(c)); }, f32_to_e4m3);
  for (const float v : {448.1f, 464.0f, 1e30f, kInfinity}) {
    EXPECT_EQ(f32_to_e4m3(v), 0x7e);
    EXPECT_EQ(f32_to_e4m3(-v), 0xfe);
  }
  EXPECT_EQ(f32_to_e4m3(kNaN) & 0x7f, 0x7f);
}

// Golden numbers of the model description (A.1).
TEST(E4m3, GoldenRoundings) {
  const float in[9] = {0.3f, 1.0625f, 1.1875f, 17, 27, 447.9f, 0.001f, 0.0009765625f, 0.00293f};
  const float out[9] = {0.3125f, 1.0f, 1.25f, 16, 28, 448, 0.001953125f, 0.0f, 0.00390625f};
  for (int i = 0; i < 9; ++i) EXPECT_EQ(e4m3_to_f32(f32_to_e4m3(in[i])), out[i]) << in[i];
}

TEST(E2m1, EveryCodeHasItsValue) {
  const float magnitudes[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (uint8_t c = 0; c < 16; ++c) {
    const float v = e2m1_to_f32(c);
    EXPECT_EQ(std::fabs(v), magnitudes[c & 7]);
    EXPECT_EQ(kE2m1Magnitude[c & 7], magnitudes[c & 7]);
    EXPECT_EQ(std::signbit(v), c >= 8);
    EXPECT_EQ(f32_to_e2m1(v), c);
  }
}

TEST(E2m1, RoundsToNearestEvenAndClamps) {
  expect_nearest_even(
      7, 8, [](uint32_t c) { return e2m1_to_f32(static_cast<uint8_t>(c)); }, f32_to_e2m1);
  EXPECT_EQ(f32_to_e2m1(7.0f), 7);
  EXPECT_EQ(f32_to_e2m1(-kInfinity), 15);
}

TEST(E8m0, EveryCodeIsItsPowerOfTwo) {
  for (int c = 0; c < 255; ++c) {
    EXPECT_EQ(double{e8m0_to_f32(static_cast<uint8_t>(c))}, std::ldexp(1.0, c - 127)) << c;
  }
  EXPECT_TRUE(std::isnan(e8m0_to_f32(255)));
  EXPECT_EQ(std::bit_cast<uint32_t>(e8m0_to_f32(0)), 0x00400000u);
}

TEST(Exponents, Exp2AndCeilLog2AgreeAtEveryBinade) {
  for (int e = -126; e <= 127; ++e) {
    const float power = exp2_int(e);
    EXPECT_EQ(power, std::ldexp(1.0f, e));
    EXPECT_EQ(ceil_log2(power), e);
    EXPECT_EQ(ceil_log2(std::nextafter(power, kInfinity)), e + 1);
    if (e > -126) {
      EXPECT_EQ(ceil_log2(std::nextafter(power, 0.0f)), e);
    }
  }
}

}  // namespace
}  // namespace ds4
