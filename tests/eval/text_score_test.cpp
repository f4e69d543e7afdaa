// Texts under teacher forcing.
#include "eval/text_score.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/nano.h"

namespace ds4::eval {
namespace {

// Distributions that can be written down: p = (1/2, 1/4, 1/4), q = (1/4, 5/8, 1/8). KL(q || p) is
// another number, so the direction shows.
TEST(TextScore, KlAndLikelihoodAreThoseOfTheFormula) {
  const std::vector<float> p = {std::log(0.5f), std::log(0.25f), std::log(0.25f)};
  const std::vector<float> q = {std::log(0.25f), std::log(0.625f), std::log(0.125f)};
  TextScore score;
  ASSERT_TRUE(score.add(q, 1, p));  // p's best is 0, q's is 1
  ASSERT_TRUE(score.add(p, 0, p));
  EXPECT_EQ(score.n_tokens(), 2);
  EXPECT_NEAR(score.nll(), -std::log(0.625) - std::log(0.5), 1e-6);
  EXPECT_NEAR(score.reference_nll(), -std::log(0.25) - std::log(0.5), 1e-6);
  EXPECT_EQ(score.top1_hits(), 2);
  EXPECT_EQ(score.same_top1(), 1);
  const double kl = 0.5 * std::log(2.0) + 0.25 * std::log(0.4) + 0.25 * std::log(2.0);
  EXPECT_NEAR(score.kl().max, kl, 1e-6);
  EXPECT_NEAR(score.kl().mean, kl / 2, 1e-6);
  EXPECT_EQ(score.kl().max_at, 0);
  EXPECT_NEAR(score.kl().median, 0, 1e-12) << "the lower of two";
  EXPECT_NEAR(score.kl().p99, kl, 1e-6);
}

TEST(TextScore, BrokenLogitsAndForeignTokensAreErrors) {
  TextScore score;
  const std::vector<float> good = {0, 1}, bad = {0, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_EQ(score.add(bad, 0).error().code, ErrorCode::kNonFinite);
  EXPECT_EQ(score.add(good, 0, bad).error().code, ErrorCode::kNonFinite);
  EXPECT_EQ(score.add(good, 2).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(score.n_tokens(), 0);
}

std::unique_ptr<Scorer> scorer(const std::string& recipe, int64_t ctx, int64_t chunk) {
  auto made = Scorer::create(ds4::test::open_nano(recipe),
                             {.n_threads = 1, .ctx_tokens = ctx, .chunk_tokens = chunk});
  if (!made) throw std::runtime_error(made.error().message);
  return std::move(*made);
}

std::vector<Token> text_tokens(size_t n) {
  std::vector<Token> tokens = ds4::test::NanoReference::open().prompt("mid511").ids;
  tokens.erase(tokens.begin());  // its BOS
  tokens.resize(n);
  return tokens;
}

constexpr Token kBos = 0;

// The oracle is the scorer's own plain form, window by window. Windows of 40 cut 90 tokens into
// 39 + 39 + 12, chunks cut each of them again.
TEST(TextScore, EachTokenIsPredictedOnceFromItsWindow) {
  const std::vector<Token> text = text_tokens(90);
  const auto model = scorer("exact", 40, 16);
  double want = 0;
  for (size_t at = 0; at < text.size(); at += 39) {
    std::vector<Token> window = {kBos};
    for (size_t i = at; i < std::min(at + 39, text.size()); ++i) window.push_back(text[i]);
    const auto values = model->score(window);
    ASSERT_TRUE(values) << values.error().message;
    for (const double value : *values) want -= value;
  }
  const auto score = score_text(*model, nullptr, text, kBos, 40);
  ASSERT_TRUE(score) << score.error().message;
  EXPECT_EQ(score->n_tokens(), 90);
  EXPECT_FALSE(score->has_reference());
  EXPECT_NEAR(score->nll(), want, 1e-9);
  const auto other_chunks = score_text(*scorer("exact", 40, 7), nullptr, text, kBos, 40);
  ASSERT_TRUE(other_chunks);
  EXPECT_EQ(other_chunks->nll(), score->nll());
}

TEST(TextScore, AModelIsNoDistanceFromItselfAndSomeFromItsQuantization) {
  const std::vector<Token> text = text_tokens(120);
  const auto exact = scorer("exact", 64, 32), same = scorer("exact", 64, 32),
             q2 = scorer("q2", 64, 32);
  const auto zero = score_text(*exact, same.get(), text, kBos, 64);
  ASSERT_TRUE(zero) << zero.error().message;
  EXPECT_EQ(zero->kl().max, 0);
  EXPECT_EQ(zero->same_top1(), 120);
  EXPECT_EQ(zero->nll(), zero->reference_nll());
  const auto some = score_text(*q2, exact.get(), text, kBos, 64);
  ASSERT_TRUE(some) << some.error().message;
  EXPECT_GT(some->kl().mean, 1e-5);
  EXPECT_LT(some->kl().mean, 0.5);
  EXPECT_GE(some->kl().median, 0);
  EXPECT_LT(some->same_top1(), 121);
  EXPECT_EQ(some->reference_nll(), zero->nll());
}

TEST(TextScore, StopsWhenAskedAndRefusesNothing) {
  const std::vector<Token> text = text_tokens(60);
  const auto model = scorer("exact", 64, 16);
  const auto some = score_text(*model, nullptr, text, kBos, 64, [](int64_t done, int64_t total) {
    return total == 60 && done < 20;
  });
  ASSERT_TRUE(some);
  EXPECT_EQ(some->n_tokens(), 32) << "two chunks of 16";
  EXPECT_EQ(score_text(*model, nullptr, {}, kBos, 64).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(score_text(*model, nullptr, text, kBos, 1).error().code, ErrorCode::kInvalidArgument);
}

// Chats are windows of their own: what one gives depends on no other, one without anything to
// predict is passed over, and a long one is cut.
TEST(TextScore, WindowsAreScoredEachByItself) {
  const std::vector<Token> text = text_tokens(60);
  std::vector<Token> a(text.begin(), text.begin() + 30), b(text.begin() + 30, text.end());
  a.insert(a.begin(), kBos);
  const auto model = scorer("exact", 64, 16);
  const auto alone_a = score_windows(*model, nullptr, std::vector<std::vector<Token>>{a}, 64);
  const auto alone_b = score_windows(*model, nullptr, std::vector<std::vector<Token>>{b}, 64);
  const std::vector<std::vector<Token>> all = {{}, a, {kBos}, b};
  const auto both = score_windows(*model, nullptr, all, 64);
  ASSERT_TRUE(alone_a && alone_b && both);
  EXPECT_EQ(both->n_tokens(), 30 + 29);
  EXPECT_DOUBLE_EQ(both->nll(), alone_a->nll() + alone_b->nll());
  EXPECT_EQ(score_windows(*model, nullptr, std::vector<std::vector<Token>>{a}, 11)->n_tokens(), 10);
  const std::vector<std::vector<Token>> nothing = {{}, {kBos}};
  EXPECT_EQ(score_windows(*model, nullptr, nothing, 64).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace ds4::eval
