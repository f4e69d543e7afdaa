// Runs of cases against a model that follows a script.
#include "eval/runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "tests/eval/script.h"

namespace ds4::eval {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Cases that ask for "word N"; each answer of the script has its own length.
struct Suite {
  std::vector<Case> cases;
  std::vector<Prompt> prompts;
};

Suite make_suite(int n) {
  Suite suite;
  for (int i = 0; i < n; ++i) {
    const std::string number = std::to_string(i);
    const std::string line = R"({"id":"c)" + number + R"(","kind":")" + (i % 2 ? "odd" : "even") +
                             R"(","think":false,"messages":[{"role":"user","content":"say )" +
                             number + R"("}],"expect":{"content":"word )" + number + R"("}})";
    auto parsed = parse_cases(line, "test");
    if (!parsed) throw std::runtime_error(parsed.error().message);
    suite.cases.push_back(std::move((*parsed)[0]));
    auto prompt = make_prompt(suite.cases.back(), {}, test::nano_tokenizer());
    if (!prompt) throw std::runtime_error(prompt.error().message);
    suite.prompts.push_back(std::move(*prompt));
  }
  return suite;
}

class RunnerTest : public testing::Test {
 protected:
  // `says(i)` is the answer to case i.
  void prepare(int n_cases, size_t n_lanes, const std::function<std::string(int)>& says,
               int64_t ctx_tokens = 1000) {
    suite_ = make_suite(n_cases);
    decoder_ = std::make_unique<test::ScriptedDecoder>(n_lanes, ctx_tokens);
    std::vector<BoardCase> rows;
    for (int i = 0; i < n_cases; ++i) {
      decoder_->script(suite_.prompts[static_cast<size_t>(i)].tokens, says(i));
      rows.push_back({.id = suite_.cases[static_cast<size_t>(i)].id});
    }
    board_ = std::make_unique<Board>(std::move(rows));
    const auto on_outcome = [this](const Outcome& o) { order_.push_back(o.id); };
    runner_ =
        std::make_unique<Runner>(suite_.cases, suite_.prompts, test::nano_tokenizer(), *decoder_,
                                 *board_, RunOptions{.answer = {.max_tokens = 100}},
                                 RunHooks{on_outcome, [this] { return interrupted_; }});
  }

  std::vector<CaseStatus> statuses() const {
    std::vector<CaseStatus> all;
    for (const Outcome& o : runner_->outcomes()) all.push_back(o.status);
    return all;
  }

  // Answers that get longer from case to case and are all right.
  static std::string right(int i) { return "word " + std::to_string(i); }

  Suite suite_;
  std::unique_ptr<test::ScriptedDecoder> decoder_;
  std::unique_ptr<Board> board_;
  std::unique_ptr<Runner> runner_;
  std::vector<std::string> order_;
  bool interrupted_ = false;
};

constexpr CaseStatus kPassed = CaseStatus::kPassed, kFailed = CaseStatus::kFailed,
                     kStopped = CaseStatus::kStopped, kPending = CaseStatus::kPending;

TEST_F(RunnerTest, GradesEachCase) {
  prepare(3, 1, [](int i) { return i == 1 ? "word 7" : right(i); });
  ASSERT_TRUE(runner_->run());
  EXPECT_THAT(statuses(), ElementsAre(kPassed, kFailed, kPassed));
  EXPECT_THAT(order_, ElementsAre("c0", "c1", "c2"));
  EXPECT_FALSE(runner_->ended_early());
  const Outcome& failed = runner_->outcomes()[1];
  EXPECT_EQ(failed.picked, "word 7");
  EXPECT_EQ(failed.expected, "word 1");
  EXPECT_EQ(failed.source, "odd");
  EXPECT_EQ(failed.output, "word 7");
  EXPECT_EQ(failed.generated_tokens, std::ssize(test::tokens_of("word 7")));
  const BoardSnapshot seen = board_->snapshot(1);
  EXPECT_TRUE(seen.finished);
  EXPECT_EQ(seen.totals.passed, 2);
  EXPECT_EQ(seen.text.content, "word 7");
  EXPECT_THAT(seen.text.note, HasSubstr("picked word 7, expected word 1"));
}

// Lanes are filled as they fall free, and what a case says does not depend on its neighbours.
TEST_F(RunnerTest, SeveralLanesGiveTheSameOutcomes) {
  const auto says = [](int i) {
    return i % 3 == 0 ? right(i) : std::string(static_cast<size_t>(i * 3), 'x');
  };
  prepare(10, 1, says);
  ASSERT_TRUE(runner_->run());
  const std::vector<Outcome> alone = runner_->outcomes();
  prepare(10, 4, says);
  ASSERT_TRUE(runner_->run());
  EXPECT_EQ(decoder_->most_together, 4u);
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_EQ(runner_->outcomes()[i].output, alone[i].output) << i;
    EXPECT_EQ(runner_->outcomes()[i].status, alone[i].status) << i;
  }
}

TEST_F(RunnerTest, APromptThatDoesNotFitIsSkippedAndAnErrorIsOneOfItsCase) {
  prepare(2, 2, right, /*ctx_tokens=*/std::ssize(make_suite(1).prompts[0].tokens));
  ASSERT_TRUE(runner_->run());
  EXPECT_THAT(statuses(), ElementsAre(CaseStatus::kSkipped, CaseStatus::kSkipped));
  EXPECT_THAT(runner_->outcomes()[0].error, HasSubstr("no room for an answer"));

  prepare(3, 1, right);
  suite_.prompts[1].tokens.push_back(5);  // the script knows no such prompt
  ASSERT_TRUE(runner_->run());
  EXPECT_THAT(statuses(), ElementsAre(kPassed, CaseStatus::kError, kPassed));
  EXPECT_EQ(runner_->outcomes()[1].error, "no script, no memory");
}

// A context that leaves less than -n: the answer gets what there is.
TEST_F(RunnerTest, TheAnswerEndsWithTheContext) {
  const int64_t prompt = std::ssize(make_suite(1).prompts[0].tokens);
  prepare(1, 1, [](int) { return std::string(50, 'x'); }, prompt + 5);
  ASSERT_TRUE(runner_->run());
  EXPECT_EQ(runner_->outcomes()[0].generated_tokens, 5);
  EXPECT_EQ(runner_->outcomes()[0].finish, Finish::kLength);
}

// The case in work goes back to the start of the queue; nothing of its first attempt stays.
TEST_F(RunnerTest, ACaseCanBeAskedForNext) {
  prepare(4, 1, right);
  decoder_->on_step = [&](int64_t step) {
    if (step == 1) board_->run_next(3);
    if (step == 2) {
      EXPECT_EQ(board_->snapshot(0).rows[0].status, kPending) << "it has made room";
    }
  };
  ASSERT_TRUE(runner_->run());
  EXPECT_THAT(order_, ElementsAre("c3", "c0", "c1", "c2"));
  EXPECT_THAT(statuses(), ElementsAre(kPassed, kPassed, kPassed, kPassed));
  EXPECT_EQ(runner_->outcomes()[0].output, "word 0");
  EXPECT_EQ(board_->snapshot(0).text.content, "word 0");
}

TEST_F(RunnerTest, AFinishedCaseCanRunAgainAndARunningOneStays) {
  prepare(2, 1, right);
  decoder_->on_step = [&](int64_t step) {
    if (step == 1) board_->run_next(0);  // is running
    if (order_.size() == 1 && board_->snapshot(0).rows[0].status == kPassed) board_->run_next(0);
  };
  ASSERT_TRUE(runner_->run());
  EXPECT_THAT(order_, ElementsAre("c0", "c0", "c1"));
}

TEST_F(RunnerTest, QuittingStopsWhatIsInWorkAndKeepsWhatIsDone) {
  prepare(3, 1, right);
  decoder_->on_step = [&](int64_t) {
    if (order_.size() == 1) board_->quit();
  };
  ASSERT_TRUE(runner_->run());
  EXPECT_TRUE(runner_->ended_early());
  EXPECT_THAT(statuses(), ElementsAre(kPassed, kStopped, kPending));
  EXPECT_THAT(order_, ElementsAre("c0")) << "a stopped case is no outcome";
  EXPECT_TRUE(board_->snapshot(0).finished);
}

TEST_F(RunnerTest, AnInterruptDoesTheSame) {
  prepare(2, 2, right);
  decoder_->on_step = [&](int64_t step) { interrupted_ = step == 2; };
  ASSERT_TRUE(runner_->run());
  EXPECT_THAT(statuses(), ElementsAre(kStopped, kStopped));
  EXPECT_FALSE(runner_->outcomes()[0].output.empty()) << "what was said is kept";
}

TEST_F(RunnerTest, ADeviceFaultEndsTheRunWithItsError) {
  prepare(3, 1, right);
  decoder_->fail_at_step = std::ssize(test::tokens_of("word 0")) + 2;
  const auto ran = runner_->run();
  ASSERT_FALSE(ran.has_value());
  EXPECT_EQ(ran.error().code, ErrorCode::kDevice);
  EXPECT_TRUE(runner_->ended_early());
  EXPECT_THAT(statuses(), ElementsAre(kPassed, kStopped, kPending));
}

// Paused, no step is taken until someone goes on; the pause can be asked for in the middle of an
// answer.
TEST_F(RunnerTest, PausingHoldsTheRunBetweenTwoSteps) {
  prepare(2, 1, right);
  std::atomic<int64_t> steps = 0;
  decoder_->on_step = [&](int64_t step) {
    steps = step;
    if (step == 2) board_->set_paused(true);
  };
  std::jthread run([&] { ASSERT_TRUE(runner_->run()); });
  while (!board_->snapshot(0).paused) std::this_thread::yield();
  EXPECT_EQ(steps, 2);
  board_->set_paused(false);
  run.join();
  EXPECT_THAT(statuses(), ElementsAre(kPassed, kPassed));
}

}  // namespace
}  // namespace ds4::eval
