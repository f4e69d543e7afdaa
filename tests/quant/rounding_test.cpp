// The branch-free rounding helpers against the library's, over all halves and their neighbours.
#include "quant/rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ds4 {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(Rounding, AgreesWithTheLibraryAroundEveryHalf) {
  for (int i = -600; i <= 600; ++i) {
    const float half = 0.5f * static_cast<float>(i);
    for (const float v :
         {half, std::nextafter(half, -kInfinity), std::nextafter(half, kInfinity)}) {
      EXPECT_EQ(round_even(v, -1000, 1000), static_cast<int>(std::nearbyint(v))) << v;
      EXPECT_EQ(round_even_small(v), static_cast<int>(std::nearbyint(v))) << v;
      EXPECT_EQ(round_away(v, -1000, 1000), static_cast<int>(std::round(v))) << v;
    }
  }
}

TEST(Rounding, ClampsAndKeepsWildValuesDefined) {
  EXPECT_EQ(round_even(127.5f, -128, 127), 127);
  EXPECT_EQ(round_even(-1e30f, 0, 3), 0);
  EXPECT_EQ(round_even(kInfinity, -128, 127), 127);
  EXPECT_EQ(round_even(kNaN, -128, 127), -128);
  EXPECT_EQ(round_even(-1e30f, -kRoundEvenMax, 4), -kRoundEvenMax);
  EXPECT_EQ(round_away(kInfinity, -127, 127), 127);
  EXPECT_EQ(round_away(kNaN, -127, 127), -127);
}

TEST(AbsMax, SeesNaNAboveEverything) {
  const float x[4] = {1.0f, -3.0f, 2.0f, -0.0f};
  EXPECT_EQ(abs_max(x, 4), 3.0f);
  EXPECT_EQ(abs_max(x, 0), 0.0f);
  const float bad[3] = {kInfinity, -kNaN, 1.0f};
  EXPECT_TRUE(std::isnan(abs_max(bad, 3)));
}

}  // namespace
}  // namespace ds4
