#include "eval/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ds4::eval {
namespace {

using testing::HasSubstr;
using testing::Not;

Outcome outcome(const std::string& id, const std::string& source, CaseStatus status,
                const std::string& picked = "p") {
  return {.id = id,
          .source = source,
          .status = status,
          .picked = picked,
          .expected = "e",
          .error = status == CaseStatus::kError ? "broken" : "",
          .generated_tokens = 10};
}

std::vector<Outcome> outcomes() {
  std::vector<Outcome> all = {
      outcome("a", "x", CaseStatus::kPassed), outcome("b", "x", CaseStatus::kFailed, "wrong\nline"),
      outcome("c", "y", CaseStatus::kError),  outcome("d", "y", CaseStatus::kSkipped),
      outcome("e", "y", CaseStatus::kPassed), outcome("f", "y", CaseStatus::kPending)};
  all[4].think_close.kind = CloseKind::kHardForced;
  all[4].generated_tokens = 30;
  all[4].finish = Finish::kLength;
  return all;
}

TEST(Report, CountsBySourceAndInAll) {
  const Totals totals = total(outcomes());
  ASSERT_EQ(totals.by_source.size(), 2u);
  EXPECT_EQ(totals.by_source[0].source, "x");
  EXPECT_EQ(totals.by_source[0].passed, 1);
  EXPECT_EQ(totals.by_source[0].failed, 1);
  EXPECT_EQ(totals.all.cases, 6);
  EXPECT_EQ(totals.all.passed, 2);
  EXPECT_EQ(totals.all.errors, 1);
  EXPECT_EQ(totals.all.skipped, 1);
  EXPECT_EQ(totals.all.pending, 1);
  EXPECT_EQ(totals.all.hard_forced, 1);
  EXPECT_EQ(totals.all.generated_tokens, 50) << "of graded cases";
  const std::string table = totals_table(totals);
  EXPECT_THAT(table, HasSubstr("   2 / 3      66.7 %      16.7  1 closed by force, 1 cut at the "
                               "limit, 1 skipped, 1 errors, 1 not run"));
}

TEST(Report, ListsFailuresOnSingleLinesAndNotMoreThanAsked) {
  const std::string list = failure_list(outcomes(), 2);
  EXPECT_THAT(list, HasSubstr("b\n  picked    wrong\\nline\n  expected  e\n"));
  EXPECT_THAT(list, HasSubstr("c\n  error: broken\n"));
  EXPECT_THAT(list, HasSubstr("and 1 more"));
  EXPECT_THAT(list, Not(HasSubstr("d\n")));
}

TEST(Report, JsonHoldsFactsTotalsAndCases) {
  std::vector<Outcome> all = outcomes();
  all[0].picked = "bad \xff byte";
  const std::string text = report_json({{"model", "m"}, {"flags", {{"jobs", 4}}}}, all, 2.5);
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["format"], "ds4-eval report 1");
  EXPECT_EQ(json["model"], "m");
  EXPECT_EQ(json["flags"]["jobs"], 4);
  EXPECT_EQ(json["elapsed_sec"], 2.5);
  EXPECT_EQ(json["totals"]["passed"], 2);
  EXPECT_EQ(json["by_source"].size(), 2u);
  ASSERT_EQ(json["cases"].size(), 6u);
  EXPECT_EQ(json["cases"][0]["picked"], "bad \uFFFD byte");
  EXPECT_EQ(json["cases"][2]["error"], "broken");
  EXPECT_EQ(json["cases"][4]["think_close"], "hard_forced");
}

TEST(Report, TwoReportsAreComparedCaseByCase) {
  std::vector<Outcome> before = outcomes(), after = outcomes();
  after[0] = outcome("a", "x", CaseStatus::kFailed, "now wrong");  // lost
  after[1].picked = "still wrong";                                 // another answer
  after[4].id = "new";
  const auto compare = [&] {
    return compare_reports(report_json({}, before, 0), "old", report_json({}, after, 0), "new");
  };
  auto result = compare();
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->lost, 1);
  EXPECT_EQ(result->gained, 0);
  EXPECT_EQ(result->neither, 1);
  EXPECT_EQ(result->other_answer, 1);
  EXPECT_EQ(result->only_old, 1);
  EXPECT_EQ(result->only_new, 1);
  EXPECT_EQ(result->p_value, 1);
  const std::string text = comparison_text(*result);
  EXPECT_THAT(text, HasSubstr("passed         1 -> 0"));
  EXPECT_THAT(text, HasSubstr("lost a\n  old       p\n  new       now wrong\n"));

  after[0].expected = "something else";
  EXPECT_THAT(compare().error().message, HasSubstr("not the same cases"));
}

TEST(Report, WhatIsNoReportIsRefused) {
  const std::string good = report_json({}, outcomes(), 0);
  for (const std::string bad :
       {"", "{", "[]", "{}", R"({"cases":7})", R"({"cases":[7]})", R"({"cases":[{"id":"a"}]})"}) {
    const auto result = compare_reports(good, "old", bad, "new");
    ASSERT_FALSE(result.has_value()) << bad;
    EXPECT_THAT(result.error().message, testing::StartsWith("new")) << bad;
  }
}

// Against binomial sums that can be written down: 5 of 5 is 2 / 32, 8 of 10 is 2 * 56 / 1024.
TEST(Report, TheSignTestIsThatOfFairCoins) {
  EXPECT_EQ(sign_test(0, 0), 1);
  EXPECT_EQ(sign_test(3, 3), 1);
  EXPECT_NEAR(sign_test(5, 0), 2.0 / 32, 1e-12);
  EXPECT_NEAR(sign_test(2, 8), 2.0 * 56 / 1024, 1e-12);
  EXPECT_GT(sign_test(5000, 5100), 0.1);
  EXPECT_LT(sign_test(4000, 5000), 1e-20);
}

}  // namespace
}  // namespace ds4::eval
