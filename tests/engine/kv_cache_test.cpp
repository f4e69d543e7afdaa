// Points of a KV cache: captured, restored, shared. The oracle is a cache that was filled without
// ever being captured or restored.
#include "engine/kv_cache.h"

#include <gtest/gtest.h>

#include "tests/engine/walk_fixture.h"

namespace ds4::test {
namespace {

class KvPointTest : public WalkTest {};

// At every length 0 .. 260 (on Nano the edges and every ninth): capture, restore into a cache with
// a larger context, go on with five tokens; all must equal the run that was never interrupted.
TEST_P(KvPointTest, RestoredAtEveryLengthContinuesLikeAnUninterruptedRun) {
  const int64_t n_max = kSanitized && !tiny() ? 140 : 260;
  Runner r = runner();
  KvCache straight = r.new_cache(n_max + 5);
  std::vector<std::vector<float>> want;  // logits after each token
  for (int64_t n = 0; n < n_max + 5; ++n) {
    want.push_back(r.decode(straight, prompt(n + 1).back()));
  }
  KvCache source = r.new_cache(n_max);
  for (int64_t n = 0; n <= n_max; ++n) {
    if (n > 0) r.decode(source, prompt(n).back());
    const bool edge = n % 128 < 3 || n % 128 > 125;
    if (!edge && n % (kSanitized ? 23 : tiny() ? 1 : 9) != 0) continue;
    const KvPoint point = must(source.capture());
    KvCache restored = r.new_cache(n_max + 300);
    must(restored.restore(point));
    ASSERT_EQ(restored.length(), n);
    ASSERT_TRUE(same_bits(state(restored), state(source))) << "state restored at " << n;
    for (int64_t i = n; i < n + 5; ++i) {
      ASSERT_TRUE(same_bits(r.decode(restored, prompt(i + 1).back()), want[size_t(i)]))
          << "restored at " << n << ", token " << i;
    }
  }
}

// What one cache writes after a point is captured is invisible to others that hold the point,
// across page borders too: pages are 1024 (ratio 4) and 32768 (ratio 128) positions long.
TEST_P(KvPointTest, BranchesFromOnePointDoNotDisturbEachOther) {
  if (!tiny()) GTEST_SKIP() << "more than a page of tokens; the tiny model has every kind of layer";
  Runner r = runner();
  must(r.pool().reserve(8192));  // copies of shared pages come on top of what the caches need
  for (int64_t n : {1023, 1000, 1024, 1030}) {
    if (kSanitized && n != 1023) break;
    const std::vector<Token> left = other(60, 1), right = other(60, 2);
    const auto cold = [&](std::span<const Token> suffix) {
      KvCache cache = r.new_cache(n + 60);
      r.prefill(cache, prompt(n), 0);
      std::vector<float> result = r.prefill(cache, suffix, 1);
      const std::vector<float> kv = state(cache);
      result.insert(result.end(), kv.begin(), kv.end());
      return result;
    };
    KvCache trunk = r.new_cache(n + 60);
    r.prefill(trunk, prompt(n), 0);
    const KvPoint point = must(trunk.capture());
    KvCache branch = r.new_cache(n + 60);
    must(branch.restore(point));
    // Token by token in turns, so that both write the same rows of shared pages.
    std::vector<float> left_logits, right_logits;
    for (size_t i = 0; i < left.size(); ++i) {
      left_logits = r.decode(trunk, left[i]);
      right_logits = r.decode(branch, right[i]);
    }
    const auto with_state = [&](std::vector<float> logits, const KvCache& cache) {
      const std::vector<float> kv = state(cache);
      logits.insert(logits.end(), kv.begin(), kv.end());
      return logits;
    };
    EXPECT_TRUE(same_bits(with_state(left_logits, trunk), cold(left))) << n;
    EXPECT_TRUE(same_bits(with_state(right_logits, branch), cold(right))) << n;
    // And the point itself is as it was.
    must(trunk.restore(point));
    r.prefill(trunk, right, 0);
    EXPECT_TRUE(same_bits(state(trunk), state(branch))) << n;
  }
}

TEST_P(KvPointTest, PointsShareTheirPages) {
  Runner r = runner();
  KvCache cache = r.new_cache(1100);
  const int64_t reserved = r.pool().attn_pages().n_free();
  r.prefill(cache, prompt(tiny() ? 1050 : 300), 0);
  const int64_t used = reserved - r.pool().attn_pages().n_free();
  EXPECT_GT(used, 0);
  std::vector<KvPoint> points;
  for (int i = 0; i < 10; ++i) points.push_back(must(cache.capture()));
  EXPECT_EQ(reserved - r.pool().attn_pages().n_free(), used);
  cache.reset();
  EXPECT_EQ(reserved - r.pool().attn_pages().n_free(), used);  // the points still hold them
  points.clear();
  EXPECT_EQ(r.pool().attn_pages().n_free(), reserved);
}

TEST_P(KvPointTest, APointLongerThanTheContextIsRefused) {
  Runner r = runner();
  KvCache large = r.new_cache(64), small = r.new_cache(32);
  r.prefill(large, prompt(33), 0);
  r.prefill(small, prompt(7), 0);
  const std::vector<float> before = state(small);
  const auto refused = small.restore(must(large.capture()));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kContextFull);
  EXPECT_EQ(refused.error().message,
            "a snapshot of 33 positions does not fit into a context of 32");
  EXPECT_TRUE(same_bits(state(small), before));
}

// A step that finds no page changes nothing, and works once there is one.
TEST_P(KvPointTest, WithoutAFreePageAStepIsRefusedAndChangesNothing) {
  Runner r = runner();
  KvCache a = r.new_cache(40), b = r.new_cache(40);
  r.prefill(a, prompt(9), 0);
  std::vector<KvPoint> points = {};
  points.push_back(must(a.capture()));
  // Each branch takes a page of its own and leaves it to a point, until none is left.
  Result<void> step;
  for (int i = 0; i < 100 && step; ++i) {
    must(b.restore(points.front()));
    const std::vector<Token> tokens = other(5, static_cast<uint32_t>(i));
    const StepSpan span{&b, tokens, SpanKind::kPrefill};
    step = r.forward().run({.spans = {&span, 1}, .logit_rows = {}, .streams_in = {}});
    if (step) points.push_back(must(b.capture()));
  }
  ASSERT_FALSE(step);
  EXPECT_EQ(step.error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(b.length(), 9);
  EXPECT_TRUE(same_bits(state(b), state(a)));
  points.clear();
  const std::vector<Token> tokens = other(5, 1);
  KvCache cold = r.new_cache(40);
  r.prefill(cold, prompt(9), 0);
  EXPECT_TRUE(same_bits(r.prefill(b, tokens, 1), r.prefill(cold, tokens, 1)));
}

INSTANTIATE_TEST_SUITE_P(Models, KvPointTest, walk_cases(), walk_case_name);

}  // namespace
}  // namespace ds4::test
