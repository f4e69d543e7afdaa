// Answers against logits that a test chooses.
#include "eval/answer.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/eval/script.h"

namespace ds4::eval {
namespace {

using test::logits_for;
using test::nano_tokenizer;
using test::tokens_of;

// Feeds the model's wishes, the same token again and again, until the answer is over.
struct Fed {
  std::string reasoning, content;
  std::vector<Token> evaluated;
};
Fed feed(AnswerRun& answer, const std::vector<std::vector<float>>& rows) {
  Fed fed;
  for (size_t i = 0; !answer.finished(); ++i) {
    const auto step = answer.next(rows[std::min(i, rows.size() - 1)]);
    if (!step) break;
    fed.reasoning += step->reasoning;
    fed.content += step->content;
    if (step->token) fed.evaluated.push_back(*step->token);
  }
  return fed;
}

std::vector<std::vector<float>> rows_of(const std::string& text) {
  std::vector<std::vector<float>> rows;
  for (const Token token : tokens_of(text)) rows.push_back(logits_for(token));
  rows.push_back(logits_for(nano_tokenizer().special().eos));
  return rows;
}

TEST(Answer, EndsWithItsTurn) {
  AnswerRun answer(nano_tokenizer(), {}, ThinkingMode::kThinking, false);
  const Fed fed = feed(answer, rows_of("it is 4</think>The answer is 4."));
  EXPECT_EQ(fed.reasoning, "it is 4");
  EXPECT_EQ(fed.content, "The answer is 4.");
  EXPECT_EQ(answer.raw(), "it is 4</think>The answer is 4.");
  EXPECT_EQ(answer.finish(), Finish::kStop);
  EXPECT_EQ(answer.think_close().kind, CloseKind::kNatural);
  EXPECT_EQ(answer.think_close().token_index, std::ssize(tokens_of("it is 4")));
  EXPECT_EQ(answer.think_close().remaining, 16000 - std::ssize(tokens_of("it is 4")));
  EXPECT_EQ(answer.think_close().rank, 1);
}

// The last token of the budget is part of the answer, but nothing is evaluated for it.
TEST(Answer, EndsAtTheLimit) {
  AnswerRun answer(nano_tokenizer(), {.max_tokens = 3}, ThinkingMode::kChat, false);
  const Token token = tokens_of("x")[0];
  const Fed fed = feed(answer, {logits_for(token)});
  EXPECT_EQ(answer.generated(), 3);
  EXPECT_EQ(fed.evaluated.size(), 2u);
  EXPECT_EQ(answer.finish(), Finish::kLength);
  EXPECT_EQ(fed.content, "xxx");
}

// A model that would think for ever: at 4 tokens left thinking is closed by force, and the other 3
// are for the reply.
TEST(Answer, TheHardLimitEndsThinking) {
  AnswerRun answer(nano_tokenizer(), {.max_tokens = 10, .soft_budget = 0, .hard_budget = 4},
                   ThinkingMode::kThinking, false);
  const Fed fed = feed(answer, {logits_for(tokens_of("x")[0])});
  EXPECT_EQ(fed.reasoning, "xxxxxx");
  EXPECT_EQ(fed.content, "xxx");
  EXPECT_EQ(answer.think_close().kind, CloseKind::kHardForced);
  EXPECT_EQ(answer.think_close().token_index, 6);
  EXPECT_EQ(answer.think_close().remaining, 4);
  EXPECT_EQ(answer.think_close().rank, nano_tokenizer().size());
}

// The soft limit waits for a moment at which the model is nearly ready: </think> among the three
// likeliest. Rank 4 is not enough, rank 3 is; before the limit neither is.
TEST(Answer, TheSoftLimitWaitsForALikelyMoment) {
  const Token x = tokens_of("x")[0];
  std::vector<std::vector<float>> rows(10, logits_for(x, 3));
  rows[5] = rows[6] = logits_for(x, 4);
  AnswerRun answer(nano_tokenizer(), {.max_tokens = 10, .soft_budget = 5, .hard_budget = 0},
                   ThinkingMode::kThinking, false);
  const Fed fed = feed(answer, rows);
  EXPECT_EQ(fed.reasoning, "xxxxxxx");
  EXPECT_EQ(answer.think_close().kind, CloseKind::kSoftForced);
  EXPECT_EQ(answer.think_close().token_index, 7) << "5 and 6 were of rank 4, 0 to 4 too early";
  EXPECT_EQ(answer.think_close().remaining, 3);
  EXPECT_EQ(answer.think_close().rank, 3);
}

TEST(Answer, NoLimitTouchesAnAnswerWithoutThinking) {
  AnswerRun answer(nano_tokenizer(), {.max_tokens = 4}, ThinkingMode::kChat, false);
  const Fed fed = feed(answer, {logits_for(tokens_of("x")[0], 2)});
  EXPECT_EQ(fed.content, "xxxx");
  EXPECT_EQ(answer.think_close().kind, CloseKind::kNone);
}

// A tool block ends the answer where it closes, if tools are asked for.
TEST(Answer, AClosedToolBlockEndsIt) {
  const std::string block =
      "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" "
      "string=\"true\">b</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";
  AnswerRun watched(nano_tokenizer(), {.max_tokens = 500}, ThinkingMode::kChat, true);
  feed(watched, rows_of("\n\n" + block + " and more"));
  EXPECT_EQ(watched.raw(), "\n\n" + block);
  EXPECT_EQ(watched.finish(), Finish::kStop);
  AnswerRun unwatched(nano_tokenizer(), {.max_tokens = 500}, ThinkingMode::kChat, false);
  feed(unwatched, rows_of("\n\n" + block + " and more"));
  EXPECT_EQ(unwatched.raw(), "\n\n" + block + " and more");
}

TEST(Answer, BrokenLogitsAreAnError) {
  AnswerRun answer(nano_tokenizer(), {}, ThinkingMode::kChat, false);
  std::vector<float> logits = logits_for(5);
  logits[7] = std::numeric_limits<float>::quiet_NaN();
  const auto step = answer.next(logits);
  ASSERT_FALSE(step.has_value());
  EXPECT_EQ(step.error().code, ErrorCode::kNonFinite);
  EXPECT_TRUE(answer.finished());
}

TEST(Answer, OptionsOutsideTheirRangeAreRefused) {
  EXPECT_TRUE(check_answer_options({}).has_value());
  EXPECT_FALSE(check_answer_options({.max_tokens = 0}).has_value());
  EXPECT_FALSE(check_answer_options({.soft_budget = -1}).has_value());
  EXPECT_FALSE(check_answer_options({.soft_rank = 0}).has_value());
  EXPECT_FALSE(check_answer_options({.sampler = {.temperature = 3}}).has_value());
}

}  // namespace
}  // namespace ds4::eval
