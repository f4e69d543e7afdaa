// The measurement of ds4-bench without its clock: frontiers, which tokens are answered, what is
// left behind. On Nano, whose answers end, so that the end of the text does come up.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "apps/bench/chart.h"
#include "apps/bench/power.h"
#include "apps/bench/sweep.h"
#include "chat/render.h"
#include "tests/support/nano.h"
#include "tokenizer/tokenizer.h"

namespace ds4::bench {
namespace {

namespace fs = std::filesystem;

TEST(BenchFrontiers, EndExactlyAtTheMaximum) {
  using List = std::vector<int64_t>;
  EXPECT_EQ(frontiers(2048, 8192, 1, 2048), (List{2048, 4096, 6144, 8192}));
  EXPECT_EQ(frontiers(2048, 9000, 1, 4096), (List{2048, 6144, 9000}));
  EXPECT_EQ(frontiers(100, 100, 1, 1), (List{100}));
  EXPECT_EQ(frontiers(100, 101, 1, 50), (List{100, 101}));
  EXPECT_EQ(frontiers(1024, 10000, 2, 1), (List{1024, 2048, 4096, 8192, 10000}));
  EXPECT_EQ(frontiers(1, 5, 1.01, 1), (List{1, 2, 3, 4, 5})) << "a small factor still goes on";
  EXPECT_EQ(frontiers(1, INT64_MAX / 2, 1e300, 1), (List{1, INT64_MAX / 2})) << "no overflow";
  EXPECT_EQ(frontiers(5, 9, 1, INT64_MAX), (List{5, 9}));
}

TEST(BenchToken, IsTheBestOneThatIsNotExcluded) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  EXPECT_EQ(best_token_except(std::vector<float>{1, 5, 3}, 1).value(), 2);
  EXPECT_EQ(best_token_except(std::vector<float>{1, 5, 5}, -1).value(), 1) << "lowest among equals";
  EXPECT_EQ(best_token_except(std::vector<float>{nan, -inf, -7}, -1).value(), 2);
  EXPECT_FALSE(best_token_except(std::vector<float>{nan, 5, -inf}, 1).has_value());
}

TEST(BenchPercentile, IsAValueThatWasSeenAndTheMedianAMiddle) {
  EXPECT_EQ(percentile({}, 0.5), 0);
  EXPECT_EQ(percentile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(percentile({4, 1, 2, 3}, 0.5), 2.5);
  std::vector<double> hundred;
  for (int i = 100; i > 0; --i) hundred.push_back(i);
  EXPECT_EQ(percentile(hundred, 0.95), 95);
  EXPECT_EQ(percentile({7}, 0.95), 7);
}

// A tree like /sys/class/powercap: two packages, a part of one, and something else. Energy is added
// between the two readings; a counter that started again at 0 counts from its range.
TEST(BenchPower, AddsUpThePackagesAndNoticesCountersThatStartAgain) {
  const fs::path root = fs::temp_directory_path() / ("ds4-power-" + std::to_string(::getpid()));
  const auto put = [&](const std::string& entry, const std::string& file, int64_t value) {
    const fs::path folder = root / "sys/class/powercap" / entry;
    fs::create_directories(folder);
    std::ofstream(folder / file) << value << "\n";
  };
  EXPECT_FALSE(PowerMeter::start(root.string()).watts()) << "no counters, no power";
  put("intel-rapl:0", "energy_uj", 1000);
  put("intel-rapl:0:1", "energy_uj", 7);
  put("dtpm", "enabled", 0);
  const PowerMeter steady = PowerMeter::start(root.string());
  EXPECT_EQ(steady.watts().value(), 0);
  put("intel-rapl:0", "energy_uj", 500);
  EXPECT_FALSE(steady.watts()) << "it started again, and nothing says where";
  put("intel-rapl:1", "energy_uj", 100);
  put("intel-rapl:1", "max_energy_range_uj", 1000);
  const PowerMeter meter = PowerMeter::start(root.string());
  put("intel-rapl:0:1", "energy_uj", 1 << 30);
  EXPECT_EQ(meter.watts().value(), 0) << "a part of a package is in it already";
  put("intel-rapl:1", "energy_uj", 50);
  EXPECT_GT(meter.watts().value(), 0);
  fs::remove_all(root);
}

TEST(BenchChart, HasNiceAxesAndSurvivesOddRuns) {
  EXPECT_EQ(nice_ceiling(0), 1);
  EXPECT_EQ(nice_ceiling(1), 1);
  EXPECT_EQ(nice_ceiling(1.1), 2);
  EXPECT_EQ(nice_ceiling(2.2), 2.5);
  EXPECT_EQ(nice_ceiling(730), 1000);
  EXPECT_NE(rate_chart("a", "b", {}).find("no row"), std::string::npos);
  const std::vector<Row> one = {{.ctx_tokens = 64, .prefill_tps = 10}};
  const std::string svg = rate_chart("<script>", "a & b", one);
  EXPECT_EQ(svg.find("<script"), std::string::npos);
  EXPECT_NE(svg.find("a &amp; b"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

// Nano with an engine as ds4-bench makes it.
class BenchSweep : public testing::Test {
 protected:
  void SetUp() override {
    auto model = test::open_nano("q8_0");
    auto tokenizer = Tokenizer::create(model.vocab());
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    tokenizer_.emplace(std::move(*tokenizer));
    auto engine = Engine::create(
        std::move(model), {.n_threads = 1, .max_sessions = 4, .snapshots = {.bytes_max = 0}});
    ASSERT_TRUE(engine) << engine.error().message;
    engine_ = std::move(*engine);
  }

  // A question with a short answer, and much text behind it.
  std::vector<Token> question() const {
    Conversation conversation;
    conversation.messages.push_back(
        {.role = Role::kUser, .content = "What is the capital of Japan?"});
    auto tokens =
        render_tokens(conversation, {.thinking = {ThinkingMode::kChat, Effort::kLow}}, *tokenizer_);
    EXPECT_TRUE(tokens) << tokens.error().message;
    return *tokens;
  }
  std::vector<Token> long_text(int64_t n) const {
    std::ifstream file(std::string(DS4_SOURCE_DIR) + "/models/nano/held_text.txt");
    const std::string text(std::istreambuf_iterator<char>(file), {});
    std::vector<Token> tokens = tokenizer_->encode_text(text);
    tokens.insert(tokens.begin(), tokenizer_->special().bos);
    tokens.resize(static_cast<size_t>(n));
    return tokens;
  }

  std::optional<Tokenizer> tokenizer_;
  std::unique_ptr<Engine> engine_;
};

// Greedily Nano says "The capital of Japan is Tokyo." and ends. The measurement goes on with the
// second best token, for as many tokens as were asked for, and the end never comes up again.
TEST_F(BenchSweep, TheEndOfTheTextIsNeverChosen) {
  const std::vector<Token> prompt = question();
  const int64_t n = std::ssize(prompt);
  const Token eos = tokenizer_->special().eos;
  std::vector<Token> chosen;
  SweepHooks hooks;
  hooks.on_token = [&](int64_t, Token token) { chosen.push_back(token); };
  const auto answer = [&](Token excluded) {
    chosen.clear();
    auto sweep = Sweep::create(
        *engine_, prompt,
        {.ctx_alloc = n + 41, .gen_tokens = 40, .repeat = 1, .batch = 1, .eos = excluded}, hooks);
    EXPECT_TRUE(sweep) << sweep.error().message;
    const auto row = sweep->measure(n);
    EXPECT_TRUE(row) << row.error().message;
    return chosen;
  };
  const std::vector<Token> free = answer(-1), kept = answer(eos);
  ASSERT_EQ(free.size(), 40u);
  ASSERT_EQ(kept.size(), 40u);
  const auto end = std::ranges::find(free, eos);
  ASSERT_NE(end, free.end()) << "the oracle: without the exclusion the end does come up";
  EXPECT_EQ(std::ranges::find(kept, eos), kept.end());
  // Until then both say the same, and the answer is the one everybody gets.
  const auto length = static_cast<size_t>(end - free.begin());
  EXPECT_EQ(tokenizer_->decode(std::span(kept).first(length)), "The capital of Japan is Tokyo.");
}

// Sessions of a batch answer what each of them would have answered alone, in the first round as
// in a repeated one; with an offset they read other texts.
TEST_F(BenchSweep, SessionsOfABatchAnswerAsTheyWouldAlone) {
  constexpr int64_t kFirst = 60, kSecond = 150, kTokens = 12, kOffset = 35;
  const std::vector<Token> prompt = long_text(kSecond + 2 * kOffset);
  using Answers = std::vector<std::vector<Token>>;
  const auto answers = [&](std::span<const Token> text, int64_t batch, int64_t offset,
                           int64_t repeat) {
    Answers found(static_cast<size_t>(batch));
    SweepHooks hooks;
    hooks.on_token = [&](int64_t lane, Token token) {
      found[static_cast<size_t>(lane)].push_back(token);
    };
    auto sweep = Sweep::create(*engine_, text,
                               {.ctx_alloc = kSecond + kTokens + 1,
                                .gen_tokens = kTokens,
                                .repeat = repeat,
                                .batch = batch,
                                .batch_offset = offset,
                                .eos = tokenizer_->special().eos},
                               hooks);
    EXPECT_TRUE(sweep) << sweep.error().message;
    EXPECT_TRUE(sweep->warm_up(20));
    for (auto& lane : found) lane.clear();
    for (const int64_t at : {kFirst, kSecond}) {
      const auto row = sweep->measure(at);
      EXPECT_TRUE(row) << row.error().message;
      EXPECT_EQ(row->batch, batch);
    }
    return found;
  };
  const Answers alone = answers(prompt, 1, 0, 1);
  ASSERT_EQ(std::ssize(alone[0]), 2 * kTokens);
  for (const auto& lane : answers(prompt, 3, 0, 1)) EXPECT_EQ(lane, alone[0]);

  const Answers apart = answers(prompt, 3, kOffset, 1);
  EXPECT_EQ(apart[0], alone[0]);
  for (size_t i = 1; i < 3; ++i) {
    std::vector<Token> shifted = {prompt.front()};
    shifted.insert(shifted.end(), prompt.begin() + 1 + static_cast<std::ptrdiff_t>(i) * kOffset,
                   prompt.end());
    EXPECT_EQ(apart[i], answers(shifted, 1, 0, 1)[0]) << "session " << i;
    EXPECT_NE(apart[i], alone[0]) << "the texts were the same";
  }

  // Twice the same answer at each frontier.
  const std::vector<Token> twice = answers(prompt, 2, 0, 2)[1];
  ASSERT_EQ(std::ssize(twice), 4 * kTokens);
  for (int64_t row = 0; row < 2; ++row) {
    for (int64_t r = 0; r < 2; ++r) {
      const auto got =
          std::span(twice).subspan(static_cast<size_t>((2 * row + r) * kTokens), kTokens);
      const auto want = std::span(alone[0]).subspan(static_cast<size_t>(row * kTokens), kTokens);
      EXPECT_TRUE(std::ranges::equal(got, want)) << "row " << row << ", round " << r;
    }
  }
}

// The size of a state is that of its rows, not of the memory that was taken for it: it grows with
// the context and does not depend on how much there is room for.
TEST_F(BenchSweep, TheSizeOfTheStateIsThatOfWhatIsInIt) {
  const std::vector<Token> prompt = long_text(300);
  const auto bytes_at = [&](int64_t frontier, int64_t ctx) {
    auto sweep = Sweep::create(*engine_, prompt, {.ctx_alloc = ctx, .gen_tokens = 0}, {});
    EXPECT_TRUE(sweep) << sweep.error().message;
    const auto row = sweep->measure(frontier);
    EXPECT_TRUE(row) << row.error().message;
    return row->kvcache_bytes;
  };
  EXPECT_EQ(bytes_at(300, 301), bytes_at(300, 5000));
  // Both lengths leave the same part of a window of 128 open, whose tokens are kept one by one.
  EXPECT_LT(bytes_at(300 - 128, 301), bytes_at(300, 301));
}

// An interruption is an error of its own kind, at a chunk and at a token.
TEST_F(BenchSweep, StopsWhereItIsInterrupted) {
  const std::vector<Token> prompt = long_text(100);
  for (const int64_t calls_until : {0, 4}) {
    int64_t calls = 0, tokens = 0;
    SweepHooks hooks;
    hooks.interrupted = [&] { return calls++ >= calls_until; };
    hooks.on_token = [&](int64_t, Token) { ++tokens; };
    auto sweep = Sweep::create(*engine_, prompt, {.ctx_alloc = 201, .gen_tokens = 100}, hooks);
    ASSERT_TRUE(sweep) << sweep.error().message;
    const auto row = sweep->measure(100);
    ASSERT_FALSE(row);
    EXPECT_EQ(row.error().code, ErrorCode::kCancelled);
    EXPECT_LT(tokens, 100);
    EXPECT_EQ(tokens > 0, calls_until > 0);
  }
}

}  // namespace
}  // namespace ds4::bench
