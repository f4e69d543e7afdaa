// The encoders' vector searches against the scalar definition, on every instruction set that this
// machine has and this build contains: the same bytes, for thousands of blocks of every kind.
// clang-format off: targets before Highway.
#include "base/simd_targets.h"

#include <hwy/highway.h>
// clang-format on

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "quant/codec.h"
#include "tests/quant/scalar_encoders.h"

namespace ds4::test {
namespace {

#if defined(DS4_SANITIZED) || defined(DS4_EMULATED) || !defined(__OPTIMIZE__)
constexpr int kBlocks = 100;
#else
constexpr int kBlocks = 3000;
#endif

// Runs `test` once for each target.
template <typename Test>
void on_every_target(const Test& test) {
  int n_targets = 0;
  for (int64_t rest = hwy::SupportedTargets() & HWY_TARGETS; rest != 0; rest &= rest - 1) {
    const int64_t target = rest & -rest;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    test();
    ++n_targets;
    hwy::SetSupportedTargetsForTest(0);
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets() & HWY_TARGETS);
  EXPECT_GE(n_targets, 1);
}

// Blocks as they come and as they should not: normal, FP4-like, sparse, constant, tiny, huge, one
// sign, all zero but one, groups of zeros.
std::vector<float> block_values(std::mt19937& random, int kind) {
  std::normal_distribution<float> normal;
  const float fp4[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  std::vector<float> x(256);
  for (size_t i = 0; i < x.size(); ++i) {
    const float v = normal(random);
    switch (kind) {
      case 1:
        x[i] = std::copysign(fp4[random() % 8], v) * 0.0625f;
        break;
      case 2:
        x[i] = random() % 8 == 0 ? v : 0.0f;
        break;
      case 3:
        x[i] = i < 128 ? 0.25f : -0.25f;
        break;
      case 4:
        x[i] = v * 1e-15f;
        break;
      case 5:
        x[i] = v * 1e30f;
        break;
      case 6:
        x[i] = std::fabs(v);
        break;
      case 7:
        x[i] = i == 77 ? v : -0.0f;
        break;
      case 8:
        x[i] = i / 32 % 2 == 0 ? 0.0f : v;
        break;
      default:
        x[i] = v;
    }
  }
  return x;
}

std::vector<float> block_importance(std::mt19937& random, int kind) {
  std::normal_distribution<float> normal(0, kind % 2 == 0 ? 1.0f : 3.0f);
  std::vector<float> u(256);
  for (float& v : u) v = std::exp(normal(random));
  return u;
}

TEST(EncoderLanes, Iq2XxsIsTheScalarSearch) {
  on_every_target([] {
    std::mt19937 random(5);
    for (int n = 0; n < kBlocks; ++n) {
      const std::vector<float> x = block_values(random, n % 9), u = block_importance(random, n);
      BlockIq2Xxs want, got;
      scalar_encode_block(x.data(), u.data(), &want);
      encode_block(x.data(), u.data(), &got);
      ASSERT_EQ(std::memcmp(&want, &got, sizeof(want)), 0) << "block " << n << " kind " << n % 9;
    }
  });
}

// All searches the formats use, and a number of sub-blocks that fills no vector.
TEST(EncoderLanes, AffineFitsAreTheScalarSearch) {
  const AffineSearch searches[] = {
      {.code_max = 15, .start = -1.0f, .step = 0.1f, .n_steps = 20},
      {.code_max = 15, .start = -0.9f, .step = 0.05f, .n_steps = 36},
      {.code_max = 3, .start = -0.5f, .step = 0.1f, .n_steps = 15, .absolute = true},
      {.code_max = 3, .start = -0.9f, .step = 0.05f, .n_steps = 36}};
  on_every_target([&] {
    std::mt19937 random(6);
    for (int n = 0; n < kBlocks / 4; ++n) {
      const std::vector<float> x = block_values(random, n % 9), u = block_importance(random, n);
      const AffineSearch& search = searches[n % 4];
      const int elems = search.code_max == 15 ? 32 : 16;
      const int n_fits = 256 / elems - n % 4;
      std::vector<uint8_t> codes(256);
      std::vector<AffineFit> fits(16);
      fit_affine(n_fits, elems, x.data(), u.data(), search, fits.data(), codes.data());
      for (int j = 0; j < n_fits; ++j) {
        uint8_t want[32];
        const AffineFit fit =
            scalar_fit_affine(elems, x.data() + j * elems, u.data() + j * elems, search, want);
        const AffineFit& got = fits[static_cast<size_t>(j)];
        ASSERT_EQ(std::memcmp(&fit, &got, sizeof(fit)), 0)
            << "block " << n << " kind " << n % 9 << ": " << fit.scale << " " << fit.min << ", got "
            << got.scale << " " << got.min;
        ASSERT_EQ(std::memcmp(want, codes.data() + j * elems, static_cast<size_t>(elems)), 0);
      }
    }
  });
}

}  // namespace
}  // namespace ds4::test
