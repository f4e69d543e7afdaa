// Which points a prompt leaves behind, and which are dropped first. No model: snapshots are made by
// hand.
#include "engine/snapshot.h"

#include <gtest/gtest.h>

#include "tests/support/runner.h"
#include "tests/support/tiny_model.h"

namespace ds4::test {
namespace {

constexpr Token kUser = 1, kAnswer = 2;

SnapshotOptions options(int64_t gap = 1) {
  return {.bytes_max = 1 << 20,
          .every_tokens = 100,
          .gap_tokens = gap,
          .kept_turns = 2,
          .turn_marker = kUser,
          .answer_marker = kAnswer};
}

// A prompt of `n` plain tokens with markers at the given places.
std::vector<Token> prompt(int64_t n, std::initializer_list<int64_t> users,
                          std::initializer_list<int64_t> answers) {
  std::vector<Token> tokens(static_cast<size_t>(n), 7);
  for (int64_t at : users) tokens[static_cast<size_t>(at)] = kUser;
  for (int64_t at : answers) tokens[static_cast<size_t>(at)] = kAnswer;
  return tokens;
}

std::vector<int64_t> lengths(const std::vector<SnapshotPoint>& points) {
  std::vector<int64_t> out;
  for (const SnapshotPoint& point : points) out.push_back(point.length);
  return out;
}

TEST(SnapshotPoints, AreTurnStartsTheAnswersStartEveryNTokensAndTheEnd) {
  const auto points =
      snapshot_points(prompt(250, {20, 80, 150, 230}, {60, 120, 200, 248}), 0, options());
  // The second turn (80) is neither the first nor one of the last two.
  EXPECT_EQ(lengths(points), (std::vector<int64_t>{20, 100, 150, 200, 230, 249, 250}));
  EXPECT_EQ(points[0].kind, SnapshotKind::kPrefix);
  EXPECT_EQ(points[1].kind, SnapshotKind::kPassing);
  EXPECT_EQ(points[2].kind, SnapshotKind::kTurn);
}

TEST(SnapshotPoints, KeepTheirDistanceExceptTheEnd) {
  const auto tokens = prompt(250, {20, 80, 150, 230}, {60, 120, 200, 248});
  EXPECT_EQ(lengths(snapshot_points(tokens, 0, options(40))),
            (std::vector<int64_t>{100, 150, 200, 249, 250}));
  // Only what follows the first token to be evaluated.
  EXPECT_EQ(lengths(snapshot_points(tokens, 199, options(10))),
            (std::vector<int64_t>{230, 249, 250}));
  EXPECT_EQ(lengths(snapshot_points(tokens, 249, options())), (std::vector<int64_t>{250}));
}

TEST(SnapshotPoints, NeedNoMarkersAndCanBeOff) {
  SnapshotOptions plain = options();
  plain.turn_marker = plain.answer_marker = -1;
  EXPECT_EQ(lengths(snapshot_points(std::vector<Token>(250, 7), 0, plain)),
            (std::vector<int64_t>{100, 200, 250}));
  plain.bytes_max = 0;
  EXPECT_TRUE(snapshot_points(std::vector<Token>(250, 7), 0, plain).empty());
}

class Store : public testing::Test {
 protected:
  // Room for six snapshots of 100 logits and a few tokens.
  static constexpr int64_t kBytes = 6 * (100 * 4 + 400);
  SnapshotOptions options_ = [] {
    SnapshotOptions o = options();
    o.bytes_max = 2 * kBytes;
    return o;
  }();
  SnapshotStore store_{options_};

  static std::vector<Token> tokens(int64_t n, Token fill) {
    return std::vector<Token>(static_cast<size_t>(n), fill);
  }
  void add(SnapshotKind kind, int64_t n, Token fill) {
    Snapshot s;
    s.tokens = tokens(n, fill);
    s.logits.assign(200 - static_cast<size_t>(n), 0.5f);  // all snapshots have 800 bytes
    ASSERT_EQ(s.bytes(), 800);
    store_.add(kind, std::move(s));
  }
  int64_t found(int64_t n, Token fill) {
    const Snapshot* s = store_.find(tokens(n, fill), n);
    return s == nullptr ? -1 : s->length();
  }
};

TEST_F(Store, FindsTheLongestSnapshotThePromptBeginsWith) {
  add(SnapshotKind::kPassing, 10, 7);
  add(SnapshotKind::kPassing, 30, 7);
  add(SnapshotKind::kPassing, 20, 8);
  EXPECT_EQ(found(40, 7), 30);
  EXPECT_EQ(found(30, 7), 30);
  EXPECT_EQ(found(29, 7), 10);
  EXPECT_EQ(found(40, 8), 20);
  EXPECT_EQ(found(40, 9), -1);
  EXPECT_EQ(store_.find(tokens(40, 7), 15)->length(), 10);  // a shorter context
}

TEST_F(Store, StaysWithinItsMemory) {
  for (int64_t n = 1; n <= 50; ++n) {
    add(SnapshotKind::kPassing, n, 7);
    EXPECT_LE(store_.use().bytes, kBytes);
  }
  EXPECT_EQ(store_.use().n_snapshots, 6);
  EXPECT_FALSE(store_.wants(tokens(90, 7), SnapshotKind::kPassing, kBytes + 1));
  store_.clear();
  EXPECT_EQ(store_.use().bytes, 0);
  EXPECT_EQ(found(50, 7), -1);
}

// Of an old, dense series the points that are quickest to make again go first; the system prompt
// and the last turns stay.
TEST_F(Store, DropsTheDensestOldOnesFirst) {
  add(SnapshotKind::kPrefix, 5, 7);
  add(SnapshotKind::kTurn, 50, 7);
  add(SnapshotKind::kPassing, 10, 7);
  add(SnapshotKind::kPassing, 11, 7);
  add(SnapshotKind::kPassing, 49, 7);
  ASSERT_TRUE(store_.drop_one());
  EXPECT_EQ(found(12, 7), 10);  // 11 is one token after 10
  while (store_.use().n_snapshots > 2) ASSERT_TRUE(store_.drop_one());
  EXPECT_EQ(found(49, 7), 5);
  EXPECT_EQ(found(50, 7), 50);
}

TEST_F(Store, KeepsOnlyTheLastTurnsAgainstOthers) {
  for (int64_t n : {10, 20, 30, 40}) add(SnapshotKind::kTurn, n, 7);
  ASSERT_TRUE(store_.drop_one());
  ASSERT_TRUE(store_.drop_one());
  EXPECT_EQ(found(29, 7), -1);
  EXPECT_EQ(found(39, 7), 30);
  EXPECT_EQ(found(40, 7), 40);
  while (store_.drop_one()) {
  }
  EXPECT_EQ(store_.use().n_snapshots, 0);
  EXPECT_EQ(store_.use().bytes, 0);
}

TEST_F(Store, WantsNothingTwice) {
  EXPECT_TRUE(store_.wants(tokens(10, 7), SnapshotKind::kPassing, 800));
  add(SnapshotKind::kPassing, 10, 7);
  EXPECT_FALSE(store_.wants(tokens(10, 7), SnapshotKind::kPrefix, 800));
  add(SnapshotKind::kPassing, 11, 8);
  ASSERT_TRUE(store_.drop_one());
  EXPECT_EQ(found(10, 7), 10);  // it rose to a prefix
}

}  // namespace
}  // namespace ds4::test
