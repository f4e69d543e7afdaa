#include "eval/extract.h"

#include <gtest/gtest.h>

#include <string>

namespace ds4::eval {
namespace {

// The table that --self-test-extractors goes through as well.
TEST(Extract, FindsWhatTheTableSays) {
  ASSERT_GE(extractor_cases().size(), 40u);
  for (const ExtractorCase& c : extractor_cases()) {
    EXPECT_EQ(pick_text(c.kind, c.text, c.n_choices), c.picked) << name_of(c.kind) << " in:\n"
                                                                << c.text;
  }
}

// A model that repeats itself for its whole budget: the searches must not go over the text again
// for each repetition.
TEST(Extract, RepetitionTakesLinearTime) {
  std::string text;
  for (int i = 0; i < 200000; ++i) text += "answer: ? ";
  EXPECT_EQ(pick_text(AnswerKind::kInteger, text, 0), "");
  EXPECT_EQ(pick_text(AnswerKind::kChoice, text + "C", 4), "C");
  EXPECT_EQ(pick_text(AnswerKind::kLineSet, text, 0), "");
}

}  // namespace
}  // namespace ds4::eval
