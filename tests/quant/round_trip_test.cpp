// The roundings that belong to the network: golden numbers computed elsewhere in double precision,
// the rules at ties and scale edges, and the algebra of the Hadamard transform.
#include "quant/round_trip.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "quant/rounding.h"

namespace ds4 {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// x_i = fl32(1.7 sin(0.7 i + 0.3)), the input of all golden blocks.
std::vector<float> golden_input(int n) {
  std::vector<float> x;
  for (int i = 0; i < n; ++i) x.push_back(static_cast<float>(1.7 * std::sin(0.7 * i + 0.3)));
  return x;
}

double sum(const std::vector<float>& x) { return std::accumulate(x.begin(), x.end(), 0.0); }

std::vector<float> random_values(int n, float scale, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) v = scale * normal(random);
  return x;
}

TEST(Fp8RoundTrip, GoldenBlock) {
  const std::vector<float> x = golden_input(64);
  const float amax = abs_max(x.data(), 64);
  EXPECT_FLOAT_EQ(amax, 1.68944335f);
  EXPECT_EQ(fp8_scale_exponent(amax), -8);
  std::vector<float> y = x;
  fp8_round_trip(y.data(), 64);
  const float first[6] = {0.5f, 1.375f, 1.625f, 1.125f, 0.0703125f, -1.0f};
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(y[i], first[i]) << i;
  EXPECT_EQ(sum(y), 0.5537109375);
  double worst = 0;
  for (size_t i = 0; i < 64; ++i) worst = std::max(worst, std::fabs(double{x[i]} - y[i]));
  EXPECT_NEAR(worst, 0.0623799562, 1e-10);
}

TEST(Fp4RoundTrip, GoldenBlock) {
  std::vector<float> x = golden_input(32);
  EXPECT_EQ(fp4_scale_exponent(abs_max(x.data(), 32)), -1);
  fp4_round_trip(x.data(), 32);
  const float first[8] = {0.5f, 1.5f, 1.5f, 1.0f, 0.0f, -1.0f, -1.5f, -1.5f};
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(x[i], first[i]) << i;
  EXPECT_EQ(sum(x), 4.25);
}

TEST(IndexerRoundTrip, GoldenRow) {
  std::vector<float> x = golden_input(128);
  std::vector<float> h = x;
  hadamard_128(h.data());
  const size_t at[6] = {0, 1, 2, 3, 64, 127};
  const float expected[6] = {0.222030f, -0.083968f, -0.193752f, -0.068265f, -0.099665f, -0.247984f};
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(h[at[i]], expected[i], 1e-6f) << at[i];
  const int exponents[4] = {-2, 1, -3, -1};
  for (int b = 0; b < 4; ++b) {
    EXPECT_EQ(fp4_scale_exponent(abs_max(h.data() + 32 * b, 32)), exponents[b]) << b;
  }
  indexer_round_trip(x.data());
  const float first[8] = {0.25f, -0.125f, -0.25f, -0.125f, -1.5f, -0.5f, -1.0f, 0.375f};
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(x[i], first[i]) << i;
  EXPECT_EQ(sum(x), 5.5625);
}

// A peak of exactly 448 * 2^k keeps the scale 2^k and the next float takes 2^(k+1): f32's 1/448 and
// 1/6 lie above the true ones, so no peak exceeds the largest code and the definition's clamp never
// acts.
TEST(ScaleExponent, PeakOnTheBoundaryKeepsTheSmallerScale) {
  for (int k = -20; k <= 100; ++k) {
    EXPECT_EQ(fp8_scale_exponent(std::ldexp(448.0f, k)), k);
    EXPECT_EQ(fp8_scale_exponent(std::ldexp(std::nextafter(448.0f, 500.0f), k)), k + 1);
    EXPECT_EQ(fp8_scale_exponent(std::ldexp(224.01f, k)), k);
  }
  for (int k = -120; k <= 120; ++k) {
    EXPECT_EQ(fp4_scale_exponent(std::ldexp(6.0f, k)), k);
    EXPECT_EQ(fp4_scale_exponent(std::ldexp(std::nextafter(6.0f, 7.0f), k)), k + 1);
    EXPECT_EQ(fp4_scale_exponent(std::ldexp(3.001f, k)), k);
  }
}

// For values that bf16 holds, the exponent read from the bits is the mathematical one; 30 binades.
TEST(ScaleExponent, IsTheCeilingOfTheLogarithmOnBf16Values) {
  for (uint16_t b = f32_to_bf16(1e-3f); b < f32_to_bf16(1e6f); ++b) {
    const float a = bf16_to_f32(b);
    EXPECT_EQ(fp8_scale_exponent(a), static_cast<int>(std::ceil(std::log2(double{a} / 448)))) << a;
    EXPECT_EQ(fp4_scale_exponent(a), static_cast<int>(std::ceil(std::log2(double{a} / 6)))) << a;
  }
}

TEST(ScaleExponent, SmallBlocksShareAFloor) {
  EXPECT_EQ(fp8_scale_exponent(1e-5f), -22);
  EXPECT_EQ(fp8_scale_exponent(0.0f), -22);
  EXPECT_EQ(fp8_scale_exponent(1e-4f), -22);
  EXPECT_EQ(fp4_scale_exponent(0.0f), -126);
  EXPECT_EQ(fp4_scale_exponent(1e-45f), -126);
}

// The branch-free rounding inside must be encoding and decoding a code, bit for bit and with the
// sign of zero: over random values of every size, all codes, and the middles between codes with
// their neighbours.
TEST(RoundTrips, AreEncodingAndDecodingOfCodes) {
  std::vector<float> values;
  for (int c = 0; c < 126; ++c) {
    const float low = e4m3_to_f32(static_cast<uint8_t>(c));
    const float middle = 0.5f * (low + e4m3_to_f32(static_cast<uint8_t>(c + 1)));
    for (const float v :
         {low, middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 500.0f)}) {
      values.push_back(v);
      values.push_back(-v);
    }
  }
  for (const float v : random_values(4096, 1.0f, 31))
    values.push_back(std::fmod(v * v * v, 448.0f));
  for (size_t begin = 0; begin + 63 <= values.size(); begin += 63) {
    float fp8[64];
    float fp4[64];
    std::copy_n(values.begin() + static_cast<int64_t>(begin), 63, fp8);
    fp8[63] = 448.0f;  // makes the scale 1
    for (int i = 0; i < 64; ++i) fp4[i] = i % 32 == 31 ? 6.0f : std::fmod(fp8[i], 6.0f);
    float expected8[64];
    float expected4[64];
    for (int i = 0; i < 64; ++i) {
      expected8[i] = e4m3_to_f32(f32_to_e4m3(fp8[i]));
      expected4[i] = e2m1_to_f32(f32_to_e2m1(fp4[i]));
    }
    fp8_round_trip(fp8, 64);
    fp4_round_trip(fp4, 64);
    for (int i = 0; i < 64; ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(fp8[i]), std::bit_cast<uint32_t>(expected8[i])) << fp8[i];
      ASSERT_EQ(std::bit_cast<uint32_t>(fp4[i]), std::bit_cast<uint32_t>(expected4[i])) << fp4[i];
    }
  }
}

// A block under the floor is rounded to multiples of 2^-22 * 2^-9.
TEST(Fp8RoundTrip, FloorBlockUsesScaleTwoToMinus22) {
  std::vector<float> x(64, 1e-5f);
  fp8_round_trip(x.data(), 64);
  const float expected = e4m3_to_f32(f32_to_e4m3(1e-5f * 0x1p22f)) * 0x1p-22f;
  for (const float v : x) EXPECT_EQ(v, expected);
  std::vector<float> zeros(448, 0.0f);
  fp8_round_trip(zeros.data(), 448);
  for (const float v : zeros) EXPECT_EQ(v, 0.0f);
}

// Rounding what is already rounded changes nothing, although the block maximum may have moved up to
// the next representable value.
TEST(RoundTrips, AreIdempotent) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    const float scale = std::ldexp(1.0f, static_cast<int>(seed % 60) - 30);
    std::vector<float> fp8 = random_values(448, scale, seed);
    fp8_round_trip(fp8.data(), 448);
    std::vector<float> again = fp8;
    fp8_round_trip(again.data(), 448);
    EXPECT_EQ(again, fp8) << seed;

    std::vector<float> fp4 = random_values(128, scale, seed);
    fp4_round_trip(fp4.data(), 128);
    again = fp4;
    fp4_round_trip(again.data(), 128);
    EXPECT_EQ(again, fp4) << seed;

    std::vector<float> bf16 = random_values(64, scale, seed);
    bf16_round_trip(bf16.data(), 64);
    again = bf16;
    bf16_round_trip(again.data(), 64);
    EXPECT_EQ(again, bf16) << seed;
  }
}

// What FP8 leaves is exact in bf16, so a packed or bf16 KV row loses nothing.
TEST(Fp8RoundTrip, ResultIsExactInBf16) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::vector<float> x = random_values(64, std::ldexp(1.0f, static_cast<int>(seed) - 25), seed);
    fp8_round_trip(x.data(), 64);
    for (const float v : x) EXPECT_EQ(bf16_to_f32(f32_to_bf16(v)), v);
  }
}

// A peak of 6 fixes the scale at 1; the other values sit on ties and must go to the even code.
TEST(Fp4RoundTrip, TiesGoToTheEvenCode) {
  std::vector<float> x(32, 0.0f);
  const float in[8] = {6.0f, 0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
  const float out[8] = {6.0f, 0.0f, 1.0f, 1.0f, 2.0f, 2.0f, 4.0f, 4.0f};
  for (size_t i = 0; i < 8; ++i) {
    x[i] = in[i];
    x[8 + i] = -in[i];
  }
  fp4_round_trip(x.data(), 32);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(x[i], out[i]) << in[i];
    EXPECT_EQ(x[8 + i], -out[i]) << -in[i];
  }
}

TEST(Fp8RoundTrip, TiesGoToTheEvenCode) {
  std::vector<float> x(64, 0.0f);
  const float in[6] = {448.0f, 17.0f, 27.0f, 1.0625f, 1.1875f, 0x1p-10f};
  const float out[6] = {448.0f, 16.0f, 28.0f, 1.0f, 1.25f, 0.0f};
  std::copy_n(in, 6, x.begin());
  fp8_round_trip(x.data(), 64);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(x[i], out[i]) << in[i];
}

// Blocks are independent: a large value in one must not coarsen its neighbours.
TEST(RoundTrips, BlocksDoNotShareScales) {
  std::vector<float> x = random_values(128, 1.0f, 9);
  std::vector<float> loud = x;
  loud[0] = 1e6f;
  fp8_round_trip(x.data(), 128);
  fp8_round_trip(loud.data(), 128);
  for (size_t i = 64; i < 128; ++i) EXPECT_EQ(loud[i], x[i]);
}

TEST(RoundTrips, NonFiniteBlocksBecomeNaN) {
  for (const float bad : {kNaN, -std::numeric_limits<float>::infinity()}) {
    std::vector<float> x(128, 1.0f);
    x[70] = bad;
    fp8_round_trip(x.data(), 128);
    EXPECT_EQ(x[0], 1.0f);
    EXPECT_TRUE(std::isnan(x[64]) && std::isnan(x[127]));
    std::vector<float> row(128, 1.0f);
    row[70] = bad;
    indexer_round_trip(row.data());
    for (const float v : row) EXPECT_TRUE(std::isnan(v));
  }
}

// Floats near the top reach the largest scale exponents without overflowing on the way. (Above the
// last value of the narrow format, rounding up to 2^128 would be right, and infinite.)
TEST(RoundTrips, LargeFloatsStayFinite) {
  std::vector<float> x(64, 0x1.7p127f);
  fp8_round_trip(x.data(), 64);
  for (const float v : x) EXPECT_EQ(v, 0x1.8p127f);  // codes 1.375 and 1.5 tie: the even one
  std::vector<float> y(32, 0x1.4p127f);
  fp4_round_trip(y.data(), 32);
  for (const float v : y) EXPECT_EQ(v, 0x1.0p127f);  // codes 4 and 6 tie: the even one
}

// Against the definition, H_ij = (-1)^popcount(i & j) / sqrt(128), summed in double.
TEST(Hadamard, EqualsTheDenseSylvesterMatrix) {
  const std::vector<float> x = random_values(128, 1.0f, 21);
  std::vector<float> y = x;
  hadamard_128(y.data());
  for (unsigned i = 0; i < 128; ++i) {
    double expected = 0;
    for (unsigned j = 0; j < 128; ++j) expected += std::popcount(i & j) % 2 == 0 ? x[j] : -x[j];
    EXPECT_NEAR(y[i], expected / std::sqrt(128.0), 2e-6);
  }
}

TEST(Hadamard, IsAnInvolutionAndKeepsTheNorm) {
  const std::vector<float> x = random_values(128, 1.0f, 22);
  std::vector<float> y = x;
  hadamard_128(y.data());
  const auto norm = [](const std::vector<float>& v) {
    return std::inner_product(v.begin(), v.end(), v.begin(), 0.0);
  };
  EXPECT_NEAR(norm(y), norm(x), 1e-4);
  hadamard_128(y.data());
  for (size_t i = 0; i < 128; ++i) EXPECT_NEAR(y[i], x[i], 2e-6);
}

}  // namespace
}  // namespace ds4
