// Log-probabilities of given texts.
#include "engine/scorer.h"

#include <gtest/gtest.h>

#include "engine/log_softmax.h"
#include "engine/session.h"
#include "tests/support/nano.h"

namespace ds4::test {
namespace {

std::unique_ptr<Scorer> make_scorer(int64_t chunk, int64_t ctx = 1000) {
  auto scorer = Scorer::create(
      open_nano("exact"),
      {.n_threads = 1, .precision = Precision::hf32(), .ctx_tokens = ctx, .chunk_tokens = chunk});
  if (!scorer) throw std::runtime_error(scorer.error().message);
  return std::move(*scorer);
}

// The oracle is an independent implementation's logits of every position (models/nano/README.md):
// the short prompts have all of theirs.
TEST(Scorer, AgreesWithIndependentLogits) {
  const NanoReference reference = NanoReference::open();
  const auto scorer = make_scorer(64);
  int64_t n_compared = 0;
  for (const ReferencePrompt& prompt : reference.prompts()) {
    const int64_t n = static_cast<int64_t>(prompt.ids.size());
    if (prompt.n_logit_rows < n || n < 2) continue;
    const std::vector<float> logits = reference.values(prompt.name + ".logits");
    const auto scores = scorer->score(prompt.ids);
    ASSERT_TRUE(scores) << scores.error().message;
    ASSERT_EQ(static_cast<int64_t>(scores->size()), n - 1);
    const size_t vocab = logits.size() / static_cast<size_t>(n);
    for (size_t i = 0; i + 1 < prompt.ids.size(); ++i) {
      const std::span<const float> row(logits.data() + i * vocab, vocab);
      const double want = LogSoftmax(row).of(row[static_cast<size_t>(prompt.ids[i + 1])]);
      EXPECT_NEAR((*scores)[i], want, 1e-4) << prompt.name << " " << i;
      ++n_compared;
    }
  }
  EXPECT_GE(n_compared, 15);
}

// 300 tokens pass the window and complete rows of both compressors. A session decodes them one by
// one; the scorer sees them in chunks that cut anywhere.
TEST(Scorer, GivesWhatASessionGivesTokenByToken) {
  std::vector<Token> tokens = NanoReference::open().prompt("mid511").ids;
#ifdef DS4_SANITIZED
  tokens.resize(135);  // minutes for more
#else
  tokens.resize(300);
#endif
  const auto engine =
      Engine::create(open_nano("exact"), {.n_threads = 1, .precision = Precision::hf32()});
  ASSERT_TRUE(engine);
  auto session = Session::create(**engine, {.ctx_tokens = 1000});
  ASSERT_TRUE(session);
  std::vector<double> want;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    ASSERT_TRUE(session->decode(tokens[i]));
    const std::span<const float> row = session->logits();
    want.push_back(LogSoftmax(row).of(row[static_cast<size_t>(tokens[i + 1])]));
  }
  for (const int64_t chunk : {1, 37, 299, 512}) {
    const auto scores = make_scorer(chunk)->score(tokens);
    ASSERT_TRUE(scores);
    EXPECT_EQ(*scores, want) << "chunk " << chunk;
  }
}

// The pieces of advance() are one text: places count on, and every row is what score() takes its
// values from, however the text is cut.
TEST(Scorer, ATextInPiecesShowsTheRowsOfTheWhole) {
  std::vector<Token> tokens = NanoReference::open().prompt("mid511").ids;
  tokens.resize(60);
  const auto scorer = make_scorer(16);
  const auto want = scorer->score(tokens);
  ASSERT_TRUE(want);
  for (const size_t piece : {size_t{1}, size_t{23}, size_t{59}}) {
    std::vector<double> got;
    const auto on_row = [&](int64_t place, std::span<const float> row) -> Result<void> {
      EXPECT_EQ(place, std::ssize(got));
      const Token next = tokens[static_cast<size_t>(place) + 1];
      got.push_back(LogSoftmax(row).of(row[static_cast<size_t>(next)]));
      return {};
    };
    scorer->restart();
    for (size_t at = 0; at < 59; at += piece) {
      ASSERT_TRUE(scorer->advance(std::span(tokens).subspan(at, std::min(piece, 59 - at)), on_row));
    }
    EXPECT_EQ(got, *want) << "pieces of " << piece;
  }
  const auto stop = [](int64_t, std::span<const float>) -> Result<void> {
    return fail(ErrorCode::kCancelled, "enough");
  };
  EXPECT_EQ(scorer->advance(std::span(tokens).first(1), stop).error().code, ErrorCode::kCancelled);
  EXPECT_EQ(make_scorer(16, 10)->advance(tokens, stop).error().code, ErrorCode::kContextFull);
}

TEST(Scorer, RefusesWhatItCannotScoreAndStopsWhenAsked) {
  const auto scorer = make_scorer(4, 10);
  const std::vector<Token> one = {0}, many(11, 5), foreign = {0, 4096}, ten(10, 5);
  EXPECT_EQ(scorer->score(one).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(scorer->score(many).error().code, ErrorCode::kContextFull);
  EXPECT_EQ(scorer->score(foreign).error().code, ErrorCode::kInvalidArgument);
  const auto stopped = scorer->score(ten, [](int64_t done, int64_t) { return done < 4; });
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(scorer->score(ten)->size(), 9u) << "usable afterwards";
}

}  // namespace
}  // namespace ds4::test
