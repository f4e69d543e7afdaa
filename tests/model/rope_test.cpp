// Rotation frequencies, bit for bit. The table was computed apart from this code, in high precision
// with the roundings the model defines; nine digits name one f32.
#include "model/rope.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>

namespace ds4 {
namespace {

constexpr float kCompressed[32] = {
    1.0f,           0.687656045f,   0.472870797f,   0.325172454f,   0.223606795f,   0.153764561f,
    0.105737120f,   0.0727107748f,  0.0500000007f,  0.0343828015f,  0.0236435402f,  0.0162586235f,
    0.0111803403f,  7.68822804e-3f, 5.28685655e-3f, 3.63553851e-3f, 2.26562493e-3f, 1.39680132e-3f,
    8.49689706e-4f, 5.08081983e-4f, 2.96977785e-4f, 1.68179977e-4f, 9.08678412e-5f, 4.54442306e-5f,
    1.95312532e-5f, 5.37231244e-6f, 3.69430336e-6f, 2.54040970e-6f, 1.74692821e-6f, 1.20128561e-6f,
    8.26071300e-7f, 5.68052940e-7f};

TEST(RopeFrequencies, CompressedLayersMatchTheTableBitForBit) {
  for (const ModelConfig* config : {&flash_config(), &pro_config(), &nano_config()}) {
    const auto f = rope_frequencies(*config, true);
    ASSERT_EQ(f.size(), 32u);
    for (size_t i = 0; i < f.size(); ++i) {
      EXPECT_EQ(std::bit_cast<uint32_t>(f[i]), std::bit_cast<uint32_t>(kCompressed[i]))
          << "pair " << i;
    }
  }
}

TEST(RopeFrequencies, PlainLayersAreUnscaled) {
  const auto f = rope_frequencies(flash_config(), false);
  EXPECT_EQ(f[0], 1.0f);
  EXPECT_EQ(f[1], 0.74989420f);
  EXPECT_EQ(f[31], 1.3335215e-4f);
}

// Angles are the f32 product of position and frequency.
TEST(RopeFrequencies, GiveTheKnownAngles) {
  const auto f = rope_frequencies(flash_config(), true);
  const auto plain = rope_frequencies(flash_config(), false);
  EXPECT_EQ(1000.0f * f[1], 687.65607f);
  EXPECT_EQ(1000.0f * f[20], 0.29697779f);
  EXPECT_EQ(1048575.0f * f[1], 721058.9375f);
  EXPECT_EQ(1048575.0f * f[10], 24792.02539f);
  EXPECT_EQ(1000.0f * plain[1], 749.89423f);
  EXPECT_NEAR(std::cos(double{1048575.0f * f[1]}), 0.8300226, 1e-7);
  EXPECT_NEAR(std::sin(double{1048575.0f * f[10]}), -0.9892201, 1e-7);
}

// Small test shapes can put both YaRN corrections on one pair; nothing may become NaN.
TEST(RopeFrequencies, AreFiniteForTinyShapes) {
  ModelConfig tiny = nano_config();
  tiny.rope_head_dim = 4;
  tiny.yarn_original_ctx = 64;
  for (const float f : rope_frequencies(tiny, true)) EXPECT_TRUE(std::isfinite(f) && f > 0);
}

}  // namespace
}  // namespace ds4
