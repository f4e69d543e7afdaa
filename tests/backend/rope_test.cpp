// RoPE: golden angles (appendix A.7), long positions, and what rotations must satisfy.
#include "model/rope.h"

#include "tests/backend/backend_test.h"

namespace ds4::test {
namespace {

constexpr int64_t kPositions[] = {0, 1, 1000, 65535, 65536, 131071, 262144, 524288, 1048575};
constexpr int64_t kCount = 9, kPairs = 32;

class RopeTest : public OnEveryHost {
 protected:
  Array table_of(bool compressed) {
    Array positions(DType::kI64, {kCount}), table = floats({kCount, 2 * kPairs});
    std::copy_n(kPositions, kCount, positions.i64());
    freqs = rope_frequencies(ModelConfig{}, compressed);
    host->rope_table(table, positions, freqs);
    return table;
  }
  std::vector<float> freqs;
};
DS4_ON_EVERY_HOST(RopeTest);

TEST_P(RopeTest, GivesTheGoldenAngles) {
  struct Golden {
    int64_t row, pair;
    float cos, sin;
  };
  const Array table = table_of(true);
  for (const Golden& g :
       {Golden{2, 1, -0.9384351f, 0.3454556f}, Golden{2, 20, 0.9562252f, 0.2926316f},
        Golden{8, 1, 0.8300226f, 0.5577297f}, Golden{8, 10, 0.1464364f, -0.9892201f}}) {
    EXPECT_NEAR(table.f()[(g.row * kPairs + g.pair) * 2], g.cos, 1e-7f) << g.row << " " << g.pair;
    EXPECT_NEAR(table.f()[(g.row * kPairs + g.pair) * 2 + 1], g.sin, 1e-7f)
        << g.row << " " << g.pair;
  }
  const Array plain = table_of(false);
  EXPECT_NEAR(plain.f()[(2 * kPairs + 1) * 2], -0.5845929f, 1e-7f);
  EXPECT_NEAR(plain.f()[(2 * kPairs + 1) * 2 + 1], 0.8113268f, 1e-7f);
}

// The angle is the f32 product; its sine and cosine are right to the last bit or so at any
// position.
TEST_P(RopeTest, LongPositionsKeepTheRoundedAngle) {
  for (bool compressed : {false, true}) {
    const Array table = table_of(compressed);
    for (int64_t n = 0; n < kCount; ++n) {
      for (int64_t i = 0; i < kPairs; ++i) {
        const float angle = static_cast<float>(kPositions[n]) * freqs[static_cast<size_t>(i)];
        const long double exact = static_cast<long double>(angle);
        EXPECT_NEAR(table.f()[(n * kPairs + i) * 2], std::cos(exact), 6e-8L);
        EXPECT_NEAR(table.f()[(n * kPairs + i) * 2 + 1], std::sin(exact), 6e-8L);
      }
    }
  }
}

TEST_P(RopeTest, InverseUndoesTheRotationAndTheHeadIsUntouched) {
  const Array table = table_of(true), x = random_floats({kCount, 3, 128}, 1);
  Array y = x;
  host->rope(y, table, false);
  for (int64_t r = 0; r < kCount * 3; ++r) {
    EXPECT_EQ(std::memcmp(y.f() + r * 128, x.f() + r * 128, 64 * sizeof(float)), 0);
    double before = 0, after = 0;
    for (int64_t d = 64; d < 128; ++d) {
      before += std::pow(static_cast<double>(x.f()[r * 128 + d]), 2);
      after += std::pow(static_cast<double>(y.f()[r * 128 + d]), 2);
    }
    EXPECT_NEAR(after, before, 1e-5 * before);
  }
  EXPECT_GT(relative_l2(y, x), 0.1);
  host->rope(y, table, true);
  EXPECT_LE(relative_l2(y, x), 2e-7);
}

// Neighbouring channels are a pair: position 1, pair 0 turns (1, 0) by one radian.
TEST_P(RopeTest, RotatesNeighbouringChannels) {
  const Array table = table_of(false);
  Array x = floats({kCount, 1, 64});
  x.f()[64] = 1.0f;  // row 1 is position 1
  host->rope(x, table, false);
  EXPECT_NEAR(x.f()[64], std::cos(1.0), 1e-7);
  EXPECT_NEAR(x.f()[65], std::sin(1.0), 1e-7);
  for (int64_t i = 2; i < 64; ++i) EXPECT_EQ(x.f()[64 + i], 0.0f);
}

}  // namespace
}  // namespace ds4::test
