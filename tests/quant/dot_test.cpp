// Activation forms and integer dot products against the known answers, and against plain float sums
// of the decoded values.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "quant/codec.h"
#include "quant/iq2_xxs.h"
#include "quant/mxfp4.h"
#include "quant/q2_k.h"
#include "quant/q4_k.h"
#include "quant/q8_0.h"
#include "quant/q8_k.h"
#include "tests/quant/known_answers.h"

namespace ds4 {
namespace {

// The known dot products are printed with nine digits, which pins a float32.
float printed(const nlohmann::ordered_json& value) {
  return static_cast<float>(value.get<double>());
}

// The block of `type` in a case of block_kat.jsonl.
template <typename Block>
std::vector<Block> blocks_of(const nlohmann::ordered_json& c, const char* type, bool imatrix) {
  for (const auto& out : c["out"]) {
    if (out["type"] != type || out["imatrix"] != imatrix) continue;
    const std::vector<uint8_t> bytes = bytes_from_hex(out["block"]);
    std::vector<Block> blocks(bytes.size() / sizeof(Block));
    std::memcpy(static_cast<void*>(blocks.data()), bytes.data(), bytes.size());
    return blocks;
  }
  ADD_FAILURE() << "no " << type;
  return std::vector<Block>(8);
}

TEST(DotKnownAnswers, ActivationFormsAgreeBitForBit) {
  for (const auto& c : known_answers("dot_kat.jsonl")) {
    SCOPED_TRACE(testing::Message() << "case " << c["case"]);
    const std::vector<float> x = floats_from_hex(c["act_f32le"]);
    BlockQ8K record;
    encode_q8_k_row(x.data(), 256, &record);
    EXPECT_EQ(hex_from_bytes(&record, sizeof(record)), std::string(c["q8_K"]));
    BlockA8 a8[8];
    encode_a8_row(x.data(), 256, a8);
    std::string scales;
    std::string codes;
    for (const BlockA8& block : a8) {
      scales += hex_from_bytes(&block.d, sizeof(block.d));
      codes += hex_from_bytes(block.q, sizeof(block.q));
    }
    EXPECT_EQ(scales, std::string(c["q8_act_scales_f32le"]));
    EXPECT_EQ(codes, std::string(c["q8_act_codes"]));
  }
}

TEST(DotKnownAnswers, IntegerSumsAndResultsAgreeBitForBit) {
  const auto weights = known_answers("block_kat.jsonl");
  const auto dots = known_answers("dot_kat.jsonl");
  ASSERT_EQ(weights.size(), dots.size());
  for (size_t i = 0; i < dots.size(); ++i) {
    const auto& c = dots[i];
    const auto& w = weights[i];
    SCOPED_TRACE(testing::Message() << "case " << c["case"]);
    ASSERT_EQ(c["case"], w["case"]);
    const std::vector<float> x = floats_from_hex(c["act_f32le"]);
    BlockQ8K a;
    BlockA8 a8[8];
    encode_block(x.data(), &a);
    encode_a8_row(x.data(), 256, a8);

    const auto q8_0 = blocks_of<BlockQ8_0>(w, "Q8_0", false);
    float sum = 0;
    for (size_t b = 0; b < 8; ++b) sum += dot_block(q8_0[b], a8[b]);
    EXPECT_EQ(sum, printed(c["q8_0"]));

    const BlockQ4K q4_k = blocks_of<BlockQ4K>(w, "Q4_K", true)[0];
    EXPECT_EQ(dot_sums(q4_k, a).scaled, c["q4_K_isum"].get<int>());
    EXPECT_EQ(dot_sums(q4_k, a).mins, c["q4_K_msum"].get<int>());
    EXPECT_EQ(dot_block(q4_k, a), printed(c["q4_K"]));

    const BlockQ2K q2_k = blocks_of<BlockQ2K>(w, "Q2_K", true)[0];
    EXPECT_EQ(dot_sums(q2_k, a).scaled, c["q2_K_isum"].get<int>());
    EXPECT_EQ(dot_sums(q2_k, a).mins, c["q2_K_msum"].get<int>());
    EXPECT_EQ(dot_block(q2_k, a), printed(c["q2_K"]));

    const BlockIq2Xxs iq2 = blocks_of<BlockIq2Xxs>(w, "IQ2_XXS", true)[0];
    EXPECT_EQ(dot_sum(iq2, iq2_xxs::kGrid.data(), a), c["iq2_xxs_isum"].get<int>());
    EXPECT_EQ(dot_block(iq2, a), printed(c["iq2_xxs"]));
  }
}

// The integer form computes the dot product of the two decoded vectors; only float rounding
// differs.
template <typename Weight, typename Activation>
void expect_dot_of_decoded(const Weight& w, const Activation& a, int n) {
  std::vector<float> wx(static_cast<size_t>(n));
  std::vector<float> ax(wx.size());
  decode_block(w, wx.data());
  decode_block(a, ax.data());
  double sum = 0;
  double magnitude = 0;
  for (size_t i = 0; i < wx.size(); ++i) {
    sum += static_cast<double>(wx[i]) * ax[i];
    magnitude += std::fabs(static_cast<double>(wx[i]) * ax[i]);
  }
  EXPECT_NEAR(dot_block(w, a), sum, 4e-7 * magnitude);
}

TEST(Dot, AgreesWithTheDecodedVectors) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 50; ++round) {
    float x[256];
    float y[256];
    float u[256];
    for (int i = 0; i < 256; ++i) {
      x[i] = normal(random);
      y[i] = normal(random);
      u[i] = std::fabs(normal(random));
    }
    BlockA8 a8;
    BlockQ8K a;
    encode_block(y, &a8);
    encode_block(y, &a);
    BlockQ8_0 q8_0;
    encode_block(x, &q8_0);
    expect_dot_of_decoded(q8_0, a8, 32);
    BlockMxfp4 mxfp4;
    encode_block(x, &mxfp4);
    expect_dot_of_decoded(mxfp4, a8, 32);
    BlockQ4K q4_k;
    encode_block(x, u, &q4_k);
    expect_dot_of_decoded(q4_k, a, 256);
    BlockQ2K q2_k;
    encode_block(x, u, &q2_k);
    expect_dot_of_decoded(q2_k, a, 256);
    BlockIq2Xxs iq2;
    encode_block(x, u, &iq2);
    expect_dot_of_decoded(iq2, a, 256);
  }
}

TEST(Dot, DoubledCodesAreTwiceTheFloats) {
  for (uint8_t c = 0; c < 16; ++c) {
    EXPECT_EQ(static_cast<float>(e2m1_doubled(c)), 2 * e2m1_to_f32(c)) << int{c};
  }
}

// Every code at its largest must not leave int32; the formula of the worst case is in each header.
TEST(Dot, WorstCaseFitsInt32) {
  BlockQ8K a{};
  a.d = 1;
  std::fill_n(a.q, 256, int8_t{-128});
  std::fill_n(a.sums, 16, int16_t{-2048});
  BlockQ4K q4_k;
  std::memset(static_cast<void*>(&q4_k), 0xff, sizeof(q4_k));
  EXPECT_EQ(dot_sums(q4_k, a).scaled, -8 * 63 * 32 * 15 * 128);
  EXPECT_EQ(dot_sums(q4_k, a).mins, -8 * 63 * 2 * 2048);
  BlockQ2K q2_k;
  std::memset(static_cast<void*>(&q2_k), 0xff, sizeof(q2_k));
  EXPECT_EQ(dot_sums(q2_k, a).scaled, -16 * 15 * 16 * 3 * 128);
}

// The peak takes -127 whatever its sign, and the first of equal peaks decides.
TEST(Q8K, ScaleOpposesTheFirstPeak) {
  float x[256] = {};
  x[3] = 2.0f;
  x[9] = -2.0f;
  BlockQ8K block;
  encode_block(x, &block);
  EXPECT_LT(block.d, 0.0f);
  EXPECT_EQ(block.q[3], -127);
  EXPECT_EQ(block.q[9], 127);
  EXPECT_EQ(block.sums[0], 0);
}

TEST(Q8K, ZeroRowsHaveZeroScales) {
  const float x[256] = {};
  BlockQ8K block;
  encode_block(x, &block);
  EXPECT_EQ(hex_from_bytes(&block, sizeof(block)), std::string(2 * sizeof(block), '0'));
  BlockA8 a8;
  encode_block(x, &a8);
  EXPECT_EQ(hex_from_bytes(&a8, sizeof(a8)), std::string(2 * sizeof(a8), '0'));
}

// Subnormal rows make the inverse scale infinite: codes stay defined, and what is decoded stays
// small.
TEST(Activations, SubnormalRowsStayFinite) {
  for (const float tiny : {1e-45f, 1e-40f, 1e-38f, 1e-37f}) {
    float x[256];
    for (int i = 0; i < 256; ++i) x[i] = static_cast<float>(i % 7 - 3) * tiny;
    BlockA8 a8;
    BlockQ8K a;
    encode_block(x, &a8);
    encode_block(x, &a);
    float y[256];
    decode_block(a8, y);
    for (int i = 0; i < 32; ++i) EXPECT_LE(std::fabs(y[i]), 4 * tiny);
    decode_block(a, y);
    for (int i = 0; i < 256; ++i) EXPECT_LE(std::fabs(y[i]), 4 * tiny);
  }
}

// A broken activation must stay visible: integer codes alone would turn NaN into a number.
TEST(Activations, NonFiniteValuesMakeTheDotProductNaN) {
  std::vector<float> w(256, 0.5f);
  BlockQ8_0 q8_0;
  encode_block(w.data(), &q8_0);
  BlockQ4K q4_k;
  encode_block(w.data(), nullptr, &q4_k);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    float x[256] = {1.0f, 2.0f};
    x[7] = bad;
    BlockA8 a8;
    BlockQ8K a;
    encode_block(x, &a8);
    encode_block(x, &a);
    EXPECT_TRUE(std::isnan(a8.d) || std::isinf(a8.d));
    EXPECT_FALSE(std::isfinite(dot_block(q8_0, a8)));
    EXPECT_FALSE(std::isfinite(dot_block(q4_k, a)));
  }
}

}  // namespace
}  // namespace ds4
