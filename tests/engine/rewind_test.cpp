// Sessions that go back: by snapshot, by fork, to other prompts and to each other's. The oracle is
// always a session of an engine that keeps no snapshots and evaluates everything.
#include <gtest/gtest.h>

#include "engine/session.h"
#include "tests/engine/walk_fixture.h"

namespace ds4::test {
namespace {

constexpr Token kUser = 1, kAnswer = 2;

class RewindTest : public WalkTest {
 protected:
  RewindTest() : engine_(make(default_options())) {
    SnapshotOptions none;
    none.bytes_max = 0;
    cold_engine_ = make(none);
  }
  static SnapshotOptions default_options() {
    return {.bytes_max = int64_t{64} << 20,
            .every_tokens = 96,
            .gap_tokens = 4,
            .turn_marker = kUser,
            .answer_marker = kAnswer};
  }
  std::unique_ptr<Engine> make(const SnapshotOptions& snapshots) const {
    return must(Engine::create(config(), weights(),
                               {.backend = GetParam().backend,
                                .prefill_chunk_tokens = 64,
                                .max_sessions = 8,
                                .snapshots = snapshots}));
  }
  Session session(int64_t ctx = 1400) const {
    return must(Session::create(*engine_, {.ctx_tokens = ctx}));
  }
  // Logits and the whole state of a session that evaluated all of it.
  std::vector<float> cold(std::span<const Token> tokens) const {
    Session s = must(Session::create(*cold_engine_, {.ctx_tokens = 1400}));
    EXPECT_EQ(must(s.sync(tokens)).reused_tokens, 0);
    return observed(s);
  }
  std::vector<float> observed(const Session& s) const {
    std::vector<float> out(s.logits().begin(), s.logits().end());
    const Snapshot now = must(s.snapshot());
    const float* state = reinterpret_cast<const float*>(now.kv.state.data());
    out.insert(out.end(), state, state + now.kv.state.size_bytes() / 4);
    return out;
  }
  void expect_cold(const Session& s, std::span<const Token> tokens, const std::string& what) const {
    ASSERT_TRUE(std::ranges::equal(s.tokens(), tokens)) << what;
    EXPECT_TRUE(same_bits(observed(s), cold(tokens))) << what;
  }
  static std::vector<Token> joined(std::span<const Token> a, std::span<const Token> b) {
    std::vector<Token> out(a.begin(), a.end());
    out.insert(out.end(), b.begin(), b.end());
    return out;
  }
  // A conversation: system text, then turns of `n` tokens each with their markers.
  std::vector<Token> conversation(int n_turns, int64_t n) const {
    std::vector<Token> out = other(21, 5);
    for (int t = 0; t < n_turns; ++t) {
      out.push_back(kUser);
      for (Token token : other(n, static_cast<uint32_t>(100 + t))) out.push_back(token);
      out.push_back(kAnswer);
      if (t + 1 == n_turns) break;
      for (Token token : other(7, static_cast<uint32_t>(200 + t))) out.push_back(token);
    }
    out.push_back(3);  // the thinking mode
    return out;
  }

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Engine> cold_engine_;
};

// Every kind of point a prompt leaves, one by one: go back to it with another continuation.
TEST_P(RewindTest, ToEveryKindOfSnapshotThenAnotherSuffixEqualsAColdRun) {
  const std::vector<Token> talk = conversation(4, tiny() ? 40 : 25);
  const std::vector<SnapshotPoint> points = snapshot_points(talk, 0, default_options());
  ASSERT_GE(points.size(), 6u);
  for (size_t i = 0; i < points.size(); ++i) {
    if (kSanitized && !tiny() && i % 3 != 0) continue;
    engine_->snapshots().clear();
    Session s = session();
    must(s.sync(talk));
    const auto kept = std::span(talk).first(static_cast<size_t>(points[i].length));
    const std::vector<Token> next = joined(kept, other(i % 2 == 0 ? 5 : 70, 31));
    const SyncStats stats = must(s.sync(next));
    EXPECT_EQ(stats.reused_tokens, points[i].length);
    EXPECT_EQ(stats.reused_tokens + stats.evaluated_tokens, std::ssize(next));
    expect_cold(s, next, "point at " + std::to_string(points[i].length));
  }
}

// BC-27: prompts that share any number of tokens with the live session, in the middle of windows of
// both ratios.
TEST_P(RewindTest, DivergenceInTheMiddleOfACompressionBlockEqualsAColdRun) {
  const int64_t n = tiny() && !kSanitized ? 1000 : 300;
  Session s = session();
  for (int64_t k = 1; k < n; k += kSanitized ? 133 : tiny() ? 37 : 61) {
    for (int64_t near : {k, k - k % 4, k - k % 128, k - k % 128 + 1, k - k % 128 + 3}) {
      if (near < 1 || (!tiny() && near != k)) continue;
      if (k % 3 != 1 && near != k) continue;  // the borders of a third of them
      must(s.sync(prompt(n)));
      const auto kept = prompt(near);
      const std::vector<Token> next = joined(kept, other(9, static_cast<uint32_t>(near)));
      const SyncStats stats = must(s.sync(next));
      EXPECT_LE(stats.reused_tokens, near + 9);
      expect_cold(s, next, "shared " + std::to_string(near));
    }
  }
}

// BC-26: saved at n, restored elsewhere, continued: nothing of the state is missing.
TEST_P(RewindTest, ARestoredSnapshotHasTheWholeState) {
  Session s = session(), target = session(1399);
  for (int64_t n : {1, 127, 128, 129, 511, 512, 513, 1300}) {
    if ((!tiny() || kSanitized) && n > 129) break;
    must(s.sync(prompt(n)));
    const Snapshot saved = must(s.snapshot());
    must(s.sync(other(50)));  // the source moves on
    must(target.restore(saved));
    EXPECT_TRUE(std::ranges::equal(target.logits(), saved.logits));
    const std::vector<Token> next = joined(prompt(n), other(3));
    EXPECT_EQ(must(target.sync(next)).reused_tokens, n);
    expect_cold(target, next, "saved at " + std::to_string(n));
  }
}

TEST_P(RewindTest, TheSamePromptAgainEvaluatesNothing) {
  Session s = session();
  must(s.sync(prompt(150)));
  EXPECT_EQ(must(s.sync(prompt(150))).evaluated_tokens, 0);
  must(s.decode(9));
  must(s.decode(11));
  EXPECT_EQ(must(s.sync(prompt(150))).evaluated_tokens, 0);  // from its snapshot, logits included
  expect_cold(s, prompt(150), "back at the prompt");
}

// A side question in the same session costs the main conversation nothing.
TEST_P(RewindTest, AConversationThatWasLeftIsFoundAgain) {
  Session s = session();
  const std::vector<Token> talk = conversation(2, 50);
  must(s.sync(talk));
  std::vector<Token> so_far = talk;
  for (Token token : other(30, 8)) {  // its answer
    must(s.decode(token));
    so_far.push_back(token);
  }
  must(s.sync(other(120, 77)));  // another prompt, nothing in common
  const std::vector<Token> next = joined(so_far, other(10, 9));
  EXPECT_EQ(must(s.sync(next)).reused_tokens, std::ssize(so_far));
  expect_cold(s, next, "after the side question");
}

TEST_P(RewindTest, ConversationsShareTheirSystemPrompt) {
  Session a = session(), b = session();
  const std::vector<Token> first = conversation(1, 60);
  must(a.sync(first));
  std::vector<Token> second(first.begin(), first.begin() + 22);
  for (Token token : other(40, 55)) second.push_back(token);
  EXPECT_EQ(must(b.sync(second)).reused_tokens, 21);
  expect_cold(b, second, "second conversation");
  expect_cold(a, first, "first conversation");
}

TEST_P(RewindTest, ForksGoTheirOwnWays) {
  Session a = session();
  must(a.sync(prompt(131)));
  Session b = must(a.fork());
  EXPECT_TRUE(std::ranges::equal(a.logits(), b.logits()));
  std::vector<Token> a_tokens(a.tokens().begin(), a.tokens().end()), b_tokens = a_tokens;
  for (int i = 0; i < 140; ++i) {
    const Token left = other(140, 1)[static_cast<size_t>(i)];
    const Token right = other(140, 2)[static_cast<size_t>(i)];
    const std::vector<SessionStep> both = {{&a, {&left, 1}, SpanKind::kDecode},
                                           {&b, {&right, 1}, SpanKind::kDecode}};
    must(engine_->step(both));
    a_tokens.push_back(left);
    b_tokens.push_back(right);
  }
  expect_cold(a, a_tokens, "original");
  expect_cold(b, b_tokens, "fork");
}

// Sessions come before snapshots: when pages run out snapshots go, and no step fails.
TEST_P(RewindTest, SnapshotsGiveTheirPagesToSessions) {
  SnapshotOptions few = default_options();
  few.bytes_max = int64_t{8} << 20;  // little, and no pages beyond the sessions' own
  engine_ = make(few);
  Session s = session(300);
  for (uint32_t i = 0; i < (tiny() && !kSanitized ? 12 : 4); ++i) {
    const std::vector<Token> tokens = other(150 + i * 11, 300 + i);
    must(s.sync(tokens));
    expect_cold(s, tokens, "prompt " + std::to_string(i));
  }
  EXPECT_LE(engine_->snapshots().use().bytes, few.bytes_max / 2);
}

// Cancelled and refused syncs leave a session that can go on, at the last finished chunk.
TEST_P(RewindTest, CancelledAndRefusedSyncsLeaveTheSessionUsable) {
  Session s = session(200);
  must(s.sync(prompt(100)));
  std::stop_source stop;
  const std::vector<Token> next = joined(prompt(40), other(150, 3));
  const auto cancelled = s.sync(next, stop.get_token(), [&](int64_t done, int64_t) {
    if (done >= 128) stop.request_stop();
  });
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, ErrorCode::kCancelled);
  const auto done = std::span(next).first(s.tokens().size());
  expect_cold(s, done, "after the cancelled sync");
  EXPECT_EQ(s.sync(prompt(201)).error().code, ErrorCode::kContextFull);
  std::vector<Token> bad = next;
  bad[5] = static_cast<Token>(config().vocab_size);
  EXPECT_EQ(s.sync(bad).error().code, ErrorCode::kInvalidArgument);
  expect_cold(s, done, "after the refused syncs");
  must(s.sync(next));
  expect_cold(s, next, "continued");
}

// BC-29, BC-31: the same greedy request gives the same tokens, ten times in turn and eight times in
// one batch, beside requests that differ by a token.
TEST_P(RewindTest, TheSameGreedyRequestGivesTheSameTokensAloneAndInABatch) {
  const auto best = [](std::span<const float> logits) {
    return static_cast<Token>(std::ranges::max_element(logits) - logits.begin());
  };
  const int64_t n_answer = tiny() ? 40 : 12;
  const auto alone = [&](std::span<const Token> request) {
    Session s = session(200);
    must(s.sync(request));
    std::vector<Token> answer;
    for (int64_t i = 0; i < n_answer; ++i) {
      answer.push_back(best(s.logits()));
      must(s.decode(answer.back()));
    }
    return answer;
  };
  const std::vector<Token> request(prompt(70).begin(), prompt(70).end());
  std::vector<Token> changed = request;
  changed[33] = changed[33] == 9 ? 10 : 9;
  const std::vector<Token> want = alone(request), want_changed = alone(changed);
  for (int i = 0; i < (tiny() ? 10 : 3); ++i) EXPECT_EQ(alone(request), want);

  std::vector<Session> sessions;
  std::vector<std::vector<Token>> answers(8);
  for (int i = 0; i < 8; ++i) {
    sessions.push_back(session(200));
    must(sessions.back().sync(i % 4 == 3 ? changed : request));
  }
  for (int64_t n = 0; n < n_answer; ++n) {
    std::vector<SessionStep> steps;
    for (size_t i = 0; i < 8; ++i) answers[i].push_back(best(sessions[i].logits()));
    for (size_t i = 0; i < 8; ++i) {
      steps.push_back({&sessions[i], {&answers[i].back(), 1}, SpanKind::kDecode});
    }
    must(engine_->step(steps));
  }
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(answers[i], i % 4 == 3 ? want_changed : want) << i;
}

INSTANTIATE_TEST_SUITE_P(Models, RewindTest, walk_cases(), walk_case_name);

}  // namespace
}  // namespace ds4::test
