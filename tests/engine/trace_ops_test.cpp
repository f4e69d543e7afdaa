// The tracing Ops change nothing and count everything: logits of a traced engine against those of a
// plain one, byte for byte, and calls against what the walk of Nano is known to do.
#include "ops/trace_ops.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "engine/session.h"
#include "tests/support/nano.h"
#include "tests/support/runner.h"

namespace ds4::test {
namespace {

std::map<std::string, OpUse> by_name(const std::vector<OpUse>& uses) {
  std::map<std::string, OpUse> map;
  for (const OpUse& use : uses) map.emplace(use.name, use);
  return map;
}

class TraceOpsTest : public testing::TestWithParam<Precision> {
 protected:
  std::unique_ptr<Engine> engine(bool profile_ops) {
    return must(Engine::create(open_nano("q2"), {.precision = GetParam(),
                                                 .prefill_chunk_tokens = 64,
                                                 .max_sessions = 1,
                                                 .profile_ops = profile_ops}));
  }
  const std::vector<Token> prompt_ = NanoReference::open().prompt("win200").ids;
};

TEST_P(TraceOpsTest, ResultsAreTheSameBits) {
  const auto plain = engine(false), traced = engine(true);
  ASSERT_EQ(plain->op_trace(), nullptr);
  Session a = must(Session::create(*plain, {.ctx_tokens = 256}));
  Session b = must(Session::create(*traced, {.ctx_tokens = 256}));
  for (Session* s : {&a, &b}) {
    must(s->sync(std::span(prompt_).first(150)));
    for (Token token : {5, 6, 7}) must(s->decode(token));
  }
  EXPECT_EQ(std::memcmp(a.logits().data(), b.logits().data(), a.logits().size_bytes()), 0);
}

TEST_P(TraceOpsTest, CountsEachPhaseByItself) {
  const auto traced = engine(true);
  Session s = must(Session::create(*traced, {.ctx_tokens = 256}));
  must(s.sync(std::span(prompt_).first(128)));  // two chunks
  traced->op_trace()->set_phase(TraceOps::Phase::kDecode);
  for (Token token : {5, 6, 7}) must(s.decode(token));
  auto prefill = by_name(traced->op_trace()->profile(TraceOps::Phase::kPrefill));
  auto decode = by_name(traced->op_trace()->profile(TraceOps::Phase::kDecode));
  EXPECT_EQ(prefill["embed"].calls, 2);
  EXPECT_EQ(decode["embed"].calls, 3);
  EXPECT_EQ(decode["attention"].calls, 3 * 8) << "once a layer";
  EXPECT_EQ(decode["route_hashed"].calls, 3 * 3) << "the first three layers";
  EXPECT_EQ(decode["compress"].calls, 3 * 9) << "six layers, and three indexers";
  EXPECT_EQ(decode.count("add_to_streams"), 0u) << "an op of the draft block alone";
  // Embedding: one row of 256 floats written for each token, and as much counted for the table.
  EXPECT_EQ(decode["embed"].bytes, 3 * 2 * 256 * 4);
  for (const auto& [name, use] : decode) EXPECT_GT(use.seconds, 0) << name;
}

TEST_P(TraceOpsTest, TheTableIsSortedByTime) {
  const std::string table =
      profile_table({{"linear", 10, 0.003, 6000000}, {"attention", 4, 0.001, 0}});
  EXPECT_EQ(table,
            "  linear                   10 calls       3.000 ms  75.0 %    2.00 GB/s\n"
            "  attention                 4 calls       1.000 ms  25.0 %\n"
            "  all ops                                 4.000 ms\n");
  const auto traced = engine(true);
  Session s = must(Session::create(*traced, {.ctx_tokens = 64}));
  must(s.sync(std::span(prompt_).first(20)));
  const auto uses = traced->op_trace()->profile(TraceOps::Phase::kPrefill);
  ASSERT_GT(uses.size(), 15u);
  for (size_t i = 1; i < uses.size(); ++i) EXPECT_GE(uses[i - 1].seconds, uses[i].seconds);
}

INSTANTIATE_TEST_SUITE_P(Profiles, TraceOpsTest,
                         testing::Values(Precision::official(), Precision::hf32()),
                         [](const auto& param) {
                           return param.param == Precision::hf32() ? "hf32" : "official";
                         });

}  // namespace
}  // namespace ds4::test
