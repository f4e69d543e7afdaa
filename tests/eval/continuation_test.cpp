// Official continuations: files, figures, comparisons.
#include "eval/continuation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "engine/log_softmax.h"
#include "engine/sampler.h"
#include "engine/session.h"
#include "tests/base/temp_folder.h"
#include "tests/support/nano.h"

namespace ds4::eval {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Manifest : public testing::Test {
 protected:
  std::string write(const std::string& text) {
    write_file(folder_.file("m.tsv"), text);
    return folder_.file("m.tsv");
  }
  std::string error_of(const std::string& text) {
    const auto entries = load_continuations(write(text));
    EXPECT_FALSE(entries.has_value()) << text;
    return entries ? "" : entries.error().message;
  }

  TempFolder folder_;
};

TEST_F(Manifest, NamesFilesBesideIt) {
  write_file(folder_.file("p"), "Hello");
  write_file(folder_.file("c"), "Hi there");
  const auto entries =
      load_continuations(write("# id\tprompt\tcontinuation\n\none\tp\tc\nall\tp\tc\tr.json\r\n"));
  ASSERT_TRUE(entries.has_value()) << entries.error().message;
  ASSERT_EQ(entries->size(), 2u);
  EXPECT_EQ((*entries)[0].id, "one");
  EXPECT_EQ((*entries)[1].prompt, "Hello");
  EXPECT_EQ((*entries)[1].text, "Hi there");
}

TEST_F(Manifest, MistakesAreNamedWithTheirLine) {
  write_file(folder_.file("p"), "Hello");
  write_file(folder_.file("empty"), "");
  write_file(folder_.file("latin"), "caf\xe9");
  EXPECT_THAT(error_of(""), HasSubstr("found none"));
  EXPECT_THAT(error_of("# only a comment\n"), HasSubstr("found none"));
  EXPECT_THAT(error_of("\n\na\tp\n"), AllOf(HasSubstr("m.tsv:3: "), HasSubstr("found 2")));
  EXPECT_THAT(error_of("a\tp\tp\tr\tx\n"), HasSubstr("found 5"));
  EXPECT_THAT(error_of("\tp\tp\n"), HasSubstr("id: expected"));
  EXPECT_THAT(error_of("a\t\tp\n"), HasSubstr("column 2"));
  EXPECT_THAT(error_of("a\tp\tnone\n"), AllOf(HasSubstr("m.tsv:1: "), HasSubstr("none")));
  EXPECT_THAT(error_of("a\tp\tempty\n"), HasSubstr("empty: expected text"));
  EXPECT_THAT(error_of("a\tp\tlatin\n"), HasSubstr("expected UTF-8"));
  EXPECT_THAT(error_of("a\tp\t.\n"), HasSubstr("m.tsv:1: "));
  EXPECT_THAT(error_of("a\tp\tp\na\tp\tp\n"), HasSubstr("m.tsv:2: id: expected each once"));
  EXPECT_THAT(error_of("a\tp\xff\tp\n"), HasSubstr("expected UTF-8"));
  EXPECT_FALSE(load_continuations(folder_.path()).has_value()) << "a folder";
}

// The oracle is a session that generates greedily: what it says must score as said, token by token
// the likeliest, at the probabilities it had.
TEST(Continuations, WhatTheModelSaysItselfIsLikelyAllTheWay) {
  const auto engine = Engine::create(ds4::test::open_nano("exact"), {.n_threads = 1});
  ASSERT_TRUE(engine);
  const auto tokenizer = Tokenizer::create((*engine)->model().vocab());
  ASSERT_TRUE(tokenizer);
  auto scorer = Scorer::create(ds4::test::open_nano("exact"),
                               {.n_threads = 1, .ctx_tokens = 200, .chunk_tokens = 16});
  ASSERT_TRUE(scorer);
  for (const char* prompt : {"What is the capital of Japan?", "Count from 3 to 8."}) {
    auto tokens = continuation_tokens({.id = "x", .prompt = prompt, .text = ""}, *tokenizer);
    ASSERT_TRUE(tokens) << tokens.error().message;
    auto session = Session::create(**engine, {.ctx_tokens = 200});
    ASSERT_TRUE(session && session->sync(tokens->tokens));
    double want = 0;
    for (int i = 0; i < 8; ++i) {
      const std::span<const float> logits = session->logits();
      const Token next = argmax(logits);
      want -= LogSoftmax(logits).of(logits[static_cast<size_t>(next)]);
      tokens->tokens.push_back(next);
      ASSERT_TRUE(session->decode(next));
    }
    const auto score = score_continuation(**scorer, "x", *tokens);
    ASSERT_TRUE(score) << score.error().message;
    EXPECT_EQ(score->target_tokens, 8);
    EXPECT_EQ(score->greedy_prefix, 8);
    EXPECT_TRUE(score->first_match);
    EXPECT_EQ(score->nll, want);

    // One other token in the middle: the prefix ends there, and it costs likelihood.
    std::vector<Token>& all = tokens->tokens;
    all[all.size() - 5] = 300;
    const auto changed = score_continuation(**scorer, "x", *tokens);
    ASSERT_TRUE(changed);
    EXPECT_EQ(changed->greedy_prefix, 3);
    EXPECT_GT(changed->nll, score->nll + 1);
  }
}

std::vector<ContinuationScore> scores() {
  return {
      {"a", 10, 4, 0.1 + 0.2, true, 4}, {"b", 20, 5, 3.0, true, 1}, {"c", 5, 1, 1e-9, false, 0}};
}

TEST(ScoreFile, ReadsBackAsItWas) {
  const auto back = parse_scores(scores_text(scores()), "s");
  ASSERT_TRUE(back.has_value()) << back.error().message;
  ASSERT_EQ(back->size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const ContinuationScore want = scores()[i], &got = (*back)[i];
    EXPECT_EQ(got.id, want.id);
    EXPECT_EQ(got.prompt_tokens, want.prompt_tokens);
    EXPECT_EQ(got.target_tokens, want.target_tokens);
    EXPECT_EQ(got.nll, want.nll) << "the same bits";
    EXPECT_EQ(got.first_match, want.first_match);
    EXPECT_EQ(got.greedy_prefix, want.greedy_prefix);
  }
}

TEST(ScoreFile, DamageIsRefusedWithItsLine) {
  for (const char* line : {"a", "a\t1\t1\t0\t0\t1", "a\t1\t1\t0\t0\t1\t1\t1", "\t1\t1\t0\t0\t1\t1",
                           "a\tx\t1\t0\t0\t1\t1", "a\t1\t0\t0\t0\t1\t0", "a\t1\t1\tnan\t0\t1\t1",
                           "a\t1\t1\t0\t0\t2\t1", "a\t1\t1\t0\t0\t1\t2", "a\t1\t1\t0\t0\t1\t-1"}) {
    const auto back = parse_scores(std::string("# c\n") + line, "s");
    ASSERT_FALSE(back.has_value()) << line;
    EXPECT_THAT(back.error().message, testing::StartsWith("s:2: "));
  }
  EXPECT_FALSE(parse_scores("", "s").has_value());
  const std::string twice = "a\t1\t1\t0\t0\t1\t1\n";
  EXPECT_THAT(parse_scores(twice + twice, "s").error().message, HasSubstr("s:2: id"));
}

TEST(ScoreFile, TwoAreComparedByTokenAndByCase) {
  std::vector<ContinuationScore> after = scores();
  after[0].nll = 0.2;
  after[1].nll = 4.0;
  after[1].greedy_prefix = 0;
  after[1].first_match = false;
  after[2].nll += 1e-10;
  const auto text = compare_scores(scores(), after);
  ASSERT_TRUE(text.has_value()) << text.error().message;
  EXPECT_THAT(*text, HasSubstr("mean nll per token   0.330000 -> 0.420000  +0.090000 (+27.27 %)"));
  EXPECT_THAT(*text, HasSubstr("cases better         1 old, 1 new, 1 equal"));
  EXPECT_THAT(*text, HasSubstr("first-token matches  2 -> 1"));
  EXPECT_THAT(*text, HasSubstr("mean greedy prefix   1.67 -> 1.33"));
  EXPECT_THAT(*text,
              HasSubstr("most improved\n  a  -0.025000 per token\nmost worsened\n  b  +0.2"));
  after[1].target_tokens = 6;
  EXPECT_THAT(compare_scores(scores(), after).error().message, HasSubstr("case 'b'"));
  after.pop_back();
  EXPECT_THAT(compare_scores(scores(), after).error().message, HasSubstr("found 3 and 2"));
}

}  // namespace
}  // namespace ds4::eval
