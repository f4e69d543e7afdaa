#include "eval/board.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace ds4::eval {
namespace {

// A board of three cases on a clock that the test moves.
class BoardTest : public testing::Test {
 protected:
  Board::Clock::time_point now_;  // before the board, which asks at once
  Board board_{{{.id = "a"}, {.id = "b"}, {.id = "c"}}, [this] { return now_; }};

  void pass_seconds(double seconds) {
    now_ +=
        std::chrono::duration_cast<Board::Clock::duration>(std::chrono::duration<double>(seconds));
  }
};

// A case from its first prompt token to its grade, as a screen sees it.
TEST_F(BoardTest, ACaseGoesThroughItsStates) {
  EXPECT_EQ(board_.snapshot(0).totals.pending, 3);
  board_.begin(1, 40, 100);
  board_.prefill(1, 30);
  pass_seconds(2);
  board_.prefill(1, 40);
  BoardSnapshot seen = board_.snapshot(1);
  EXPECT_EQ(seen.rows[1].status, CaseStatus::kPrefill);
  EXPECT_EQ(seen.rows[1].prompt_done, 40);
  EXPECT_EQ(seen.rows[1].elapsed_seconds, 2);
  EXPECT_EQ(seen.newest, 1u);
  EXPECT_EQ(seen.prefill_rate, 20);

  board_.token(1, true, 99, "so", "");
  board_.token(1, false, 98, "", "4");
  seen = board_.snapshot(1);
  EXPECT_EQ(seen.rows[1].status, CaseStatus::kAnswer);
  EXPECT_EQ(seen.rows[1].generated_tokens, 2);
  EXPECT_EQ(seen.rows[1].budget_left, 98);
  EXPECT_EQ(seen.text.reasoning, "so");
  EXPECT_EQ(seen.text.content, "4");
  EXPECT_EQ(seen.decode_rate, 1);
  EXPECT_TRUE(board_.snapshot(0).text.content.empty()) << "another case's text";

  board_.finish(1, CaseStatus::kFailed, "picked 4, expected 5");
  pass_seconds(5);
  seen = board_.snapshot(1);
  EXPECT_EQ(seen.totals.failed, 1);
  EXPECT_EQ(seen.totals.pending, 2);
  EXPECT_EQ(seen.totals.prompt_tokens, 40);
  EXPECT_EQ(seen.totals.generated_tokens, 2);
  EXPECT_EQ(seen.rows[1].elapsed_seconds, 2) << "a finished case's clock stands still";
  EXPECT_EQ(seen.text.note, "picked 4, expected 5");
  EXPECT_FALSE(seen.newest.has_value());
}

TEST_F(BoardTest, TheClockStandsStillWhilePausedAndAfterTheEnd) {
  pass_seconds(3);
  board_.set_paused(true);
  pass_seconds(100);
  EXPECT_EQ(board_.elapsed_seconds(), 3);
  board_.set_paused(false);
  pass_seconds(1);
  EXPECT_EQ(board_.elapsed_seconds(), 4);
  board_.finish_run();
  pass_seconds(100);
  EXPECT_EQ(board_.elapsed_seconds(), 4);
  EXPECT_TRUE(board_.snapshot(0).finished);
}

// A second attempt at a case shows nothing of the first.
TEST_F(BoardTest, ACaseThatGoesBackIsAsNew) {
  board_.begin(0, 10, 100);
  board_.token(0, false, 99, "", "first");
  board_.back_to_pending(0);
  EXPECT_EQ(board_.snapshot(0).rows[0].status, CaseStatus::kPending);
  EXPECT_EQ(board_.snapshot(0).rows[0].generated_tokens, 0);
  board_.begin(0, 10, 100);
  board_.token(0, false, 99, "", "second");
  EXPECT_EQ(board_.snapshot(0).text.content, "second");
}

// A screen shows the end of a long text; it must not begin inside a character.
TEST_F(BoardTest, LongTextIsCutBetweenCharacters) {
  board_.begin(0, 1, 9);
  board_.token(0, false, 8, "", "aäöü");  // 1 + 3 * 2 bytes
  EXPECT_EQ(board_.snapshot(0, 7).text.content, "aäöü");
  EXPECT_EQ(board_.snapshot(0, 6).text.content, "äöü");
  EXPECT_EQ(board_.snapshot(0, 5).text.content, "öü");
}

TEST_F(BoardTest, CommandsAreTakenOnce) {
  EXPECT_FALSE(board_.take_next().has_value());
  board_.run_next(2);
  board_.run_next(7);  // no such case
  EXPECT_EQ(board_.take_next(), 2u);
  EXPECT_FALSE(board_.take_next().has_value());
  const uint64_t before = board_.version();
  board_.toggle_paused();
  EXPECT_GT(board_.version(), before);
  EXPECT_TRUE(board_.snapshot(0).paused);
}

// The runner sleeps while paused; going on and quitting both wake it.
TEST_F(BoardTest, APausedRunnerWakesToGoOnAndToQuit) {
  EXPECT_TRUE(board_.wait_while_paused());
  board_.set_paused(true);
  std::vector<bool> went_on;
  std::jthread runner([&] {
    went_on.push_back(board_.wait_while_paused());
    board_.set_paused(true);
    went_on.push_back(board_.wait_while_paused());
  });
  board_.set_paused(false);
  // Only after the first wait has ended can the board be paused again.
  while (!board_.snapshot(0).paused) std::this_thread::yield();
  board_.quit();
  runner.join();
  EXPECT_EQ(went_on, (std::vector<bool>{true, false}));
}

}  // namespace
}  // namespace ds4::eval
