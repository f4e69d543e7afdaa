// Sessions and the engine's step, on Nano: history, reuse, limits, cancellation, several at once.
#include "engine/session.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/nano.h"
#include "tests/support/runner.h"

namespace ds4::test {
namespace {

class SessionTest : public testing::Test {
 protected:
  std::unique_ptr<Engine> engine_ =
      must(Engine::create(open_nano("q8_0"), {.prefill_chunk_tokens = 32, .max_sessions = 4}));
  // Evaluates everything, every time: the oracle.
  std::unique_ptr<Engine> cold_engine_ = must(Engine::create(
      open_nano("q8_0"),
      {.prefill_chunk_tokens = 32, .max_sessions = 1, .snapshots = {.bytes_max = 0}}));
  NanoReference reference_ = NanoReference::open();

  Session session(int64_t ctx = 256) {
    return must(Session::create(*engine_, {.ctx_tokens = ctx}));
  }
  std::span<const Token> prompt(size_t n) const {
    return std::span(reference_.prompt("win200").ids).first(n);
  }
  std::vector<float> cold(std::span<const Token> tokens) {
    Session fresh = must(Session::create(*cold_engine_, {.ctx_tokens = 256}));
    EXPECT_EQ(must(fresh.sync(tokens)).reused_tokens, 0);
    return {fresh.logits().begin(), fresh.logits().end()};
  }
  static bool same_bits(std::span<const float> a, std::span<const float> b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
  }
};

TEST_F(SessionTest, SyncEvaluatesOnlyWhatFollowsTheHistory) {
  Session s = session();
  EXPECT_EQ(must(s.sync(prompt(70))).evaluated_tokens, 70);
  const SyncStats more = must(s.sync(prompt(100)));
  EXPECT_EQ(more.reused_tokens, 70);
  EXPECT_EQ(more.evaluated_tokens, 30);
  EXPECT_TRUE(same_bits(s.logits(), cold(prompt(100))));
  must(s.decode(prompt(101).back()));
  EXPECT_TRUE(same_bits(s.logits(), cold(prompt(101))));
}

TEST_F(SessionTest, AnotherPromptStartsOverAndEqualsAColdRun) {
  Session s = session();
  must(s.sync(prompt(90)));
  std::vector<Token> other(prompt(60).begin(), prompt(60).end());
  other[40] += 1;
  EXPECT_EQ(must(s.sync(other)).reused_tokens, 0);
  EXPECT_TRUE(same_bits(s.logits(), cold(other)));
  // A prompt that is a prefix of the history needs its own last logits.
  must(s.sync(prompt(90)));
  must(s.sync(prompt(50)));
  EXPECT_EQ(s.tokens().size(), 50u);
  EXPECT_TRUE(same_bits(s.logits(), cold(prompt(50))));
}

TEST_F(SessionTest, FullContextIsAnErrorThatChangesNothing) {
  Session s = session(64);
  const auto too_long = s.sync(prompt(65));
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().code, ErrorCode::kContextFull);
  EXPECT_EQ(too_long.error().message, "the prompt has 65 tokens, the context holds 64 (see --ctx)");
  must(s.sync(prompt(64)));
  const std::vector<float> before(s.logits().begin(), s.logits().end());
  const auto full = s.decode(5);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, ErrorCode::kContextFull);
  EXPECT_EQ(s.tokens().size(), 64u);
  EXPECT_TRUE(same_bits(s.logits(), before));
}

TEST_F(SessionTest, CancelledBetweenChunksKeepsWhatIsDoneAndGoesOn) {
  Session s = session();
  std::stop_source stop;
  const auto cancelled = s.sync(prompt(150), stop.get_token(), [&](int64_t done, int64_t) {
    if (done >= 64) stop.request_stop();
  });
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(s.tokens().size(), 64u);
  EXPECT_EQ(must(s.sync(prompt(150))).reused_tokens, 64);
  EXPECT_TRUE(same_bits(s.logits(), cold(prompt(150))));
}

TEST_F(SessionTest, SeveralSessionsInOneStepEqualEachAlone) {
  Session a = session(), b = session(), c = session();
  must(a.sync(prompt(131)));
  must(b.sync(prompt(3)));
  const Token next = 77;
  const std::vector<SessionStep> steps = {
      {&a, {&next, 1}, SpanKind::kDecode}, {&b, prompt(20).subspan(3)}, {&c, prompt(9)}};
  must(engine_->step(steps));
  std::vector<Token> a_tokens(prompt(131).begin(), prompt(131).end());
  a_tokens.push_back(next);
  EXPECT_TRUE(same_bits(a.logits(), cold(a_tokens)));
  EXPECT_TRUE(same_bits(b.logits(), cold(prompt(20))));
  EXPECT_TRUE(same_bits(c.logits(), cold(prompt(9))));
}

TEST_F(SessionTest, ASessionTwiceInAStepIsRefused) {
  Session a = session();
  const Token next = 77;
  const std::vector<SessionStep> twice = {{&a, {&next, 1}}, {&a, {&next, 1}}};
  const auto refused = engine_->step(twice);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(a.tokens().empty());
}

TEST_F(SessionTest, EmptyPromptAndOddContextsAreRefused) {
  Session s = session();
  EXPECT_EQ(s.sync({}).error().code, ErrorCode::kInvalidArgument);
  for (int64_t ctx : {int64_t{0}, int64_t{-1}, int64_t{1048577}, INT64_MAX}) {
    const auto created = Session::create(*engine_, {.ctx_tokens = ctx});
    ASSERT_FALSE(created) << ctx;
    EXPECT_EQ(created.error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace ds4::test
