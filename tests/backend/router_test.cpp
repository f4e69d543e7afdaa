// The router: golden scores (appendix A.6), the bias that chooses without weighing, ties, hash
// layers.
#include "tests/backend/backend_test.h"

namespace ds4::test {
namespace {

struct Routed {
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

Routed route(Ops& ops, const std::vector<float>& logits, const std::vector<float>& bias, int64_t k,
             float scale = 1.5f) {
  const int64_t n = static_cast<int64_t>(logits.size());
  Array l = floats({1, n}), b = floats({n}), w = floats({1, k}), ids = ints({1, k});
  std::copy(logits.begin(), logits.end(), l.f());
  std::copy(bias.begin(), bias.end(), b.f());
  ops.route(ids, w, l, b, scale);
  return {{ids.i32(), ids.i32() + k}, {w.f(), w.f() + k}};
}

class RouterTest : public OnEveryHost {};
DS4_ON_EVERY_HOST(RouterTest);

TEST_P(RouterTest, GivesTheGoldenScores) {
  const std::vector<float> logits = {0, 2, -1, 25, -30};
  const double want[] = {0.8325546, 1.4583991, 0.5596979, 5.0, 3.059023e-7};
  const double sum = want[0] + want[1] + want[2] + want[3] + want[4];
  const Routed r = route(*host.ops, logits, std::vector<float>(5, 0.0f), 5);
  EXPECT_EQ(r.ids, (std::vector<int32_t>{0, 1, 2, 3, 4}));
  for (size_t i = 0; i < 5; ++i) {
    const double weight = 1.5 * want[i] / sum;
    EXPECT_NEAR(r.weights[i], weight, 3e-7 * weight) << i;
  }
}

TEST_P(RouterTest, WeightsSumToTheScale) {
  const Array logits = random_floats({50, 16}, 1, 3.0f), bias = random_floats({16}, 2);
  Array ids = ints({50, 4}), weights = floats({50, 4});
  host->route(ids, weights, logits, bias, 2.5f);
  for (int64_t n = 0; n < 50; ++n) {
    float sum = 0;
    for (int64_t i = 0; i < 4; ++i) {
      sum += weights.f()[n * 4 + i];
      if (i > 0) {
        EXPECT_LT(ids.i32()[n * 4 + i - 1], ids.i32()[n * 4 + i]);
      }
    }
    EXPECT_NEAR(sum, 2.5f, 2e-6f);
  }
}

// A bias that leaves the set alone leaves the weights alone; one that changes it changes ids only
// through the choice, never through the scores.
TEST_P(RouterTest, BiasChoosesButDoesNotWeigh) {
  const std::vector<float> logits = {3, 2, 1, 0, -1, -2};
  const Routed plain = route(*host.ops, logits, std::vector<float>(6, 0.0f), 3);
  EXPECT_EQ(plain.ids, (std::vector<int32_t>{0, 1, 2}));
  const Routed same_set = route(*host.ops, logits, {0.3f, 0.1f, 0.2f, -0.5f, 0, 0}, 3);
  EXPECT_EQ(same_set.ids, plain.ids);
  EXPECT_EQ(same_set.weights, plain.weights);
  const Routed other = route(*host.ops, logits, {0, 0, 0, 0, 0, 10}, 3);
  EXPECT_EQ(other.ids, (std::vector<int32_t>{0, 1, 5}));
  EXPECT_NEAR(other.weights[0] / other.weights[1], plain.weights[0] / plain.weights[1], 1e-6f);
  EXPECT_LT(other.weights[2], other.weights[1]);
}

TEST_P(RouterTest, EqualScoresPreferTheSmallerId) {
  EXPECT_EQ(route(*host.ops, std::vector<float>(16, 0.5f), std::vector<float>(16, 0.0f), 4).ids,
            (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(route(*host.ops, {0, 1, 0, 1, 0, 1, 0}, std::vector<float>(7, 0.0f), 5).ids,
            (std::vector<int32_t>{0, 1, 2, 3, 5}));
}

// All scores vanish: the guarded denominator keeps the weights finite.
TEST_P(RouterTest, VanishingScoresStayFinite) {
  for (float w :
       route(*host.ops, std::vector<float>(8, -200.0f), std::vector<float>(8, 0.0f), 4).weights) {
    EXPECT_TRUE(std::isfinite(w));
  }
}

TEST_P(RouterTest, HashLayersTakeIdsFromTheTokenAlone) {
  Array table = ints({3, 2}), tokens = ints({4}), ids = ints({4, 2});
  Array weights = floats({4, 2});
  const int32_t rows[] = {5, 2, 0, 1, 3, 3}, token[] = {2, 0, 1, 0};
  std::copy_n(rows, 6, table.i32());
  std::copy_n(token, 4, tokens.i32());
  const Array logits = random_floats({4, 6}, 3);
  host->route_hashed(ids, weights, logits, tokens, table, 1.5f);
  const int32_t want[] = {3, 3, 2, 5, 0, 1, 2, 5};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(ids.i32()[i], want[i]) << i;
  EXPECT_NEAR(weights.f()[0], 0.75f, 1e-6f);  // the same expert twice
  EXPECT_NEAR(weights.f()[0] + weights.f()[1], 1.5f, 1e-6f);
  const auto score = [&](int64_t n, int64_t e) {
    return std::sqrt(std::log1p(std::exp(static_cast<double>(logits.f()[n * 6 + e]))));
  };
  EXPECT_NEAR(weights.f()[2], 1.5 * score(1, 2) / (score(1, 2) + score(1, 5)), 1e-6);
}

}  // namespace
}  // namespace ds4::test
