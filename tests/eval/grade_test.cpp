#include "eval/grade.h"

#include <gtest/gtest.h>

#include <string>

#include "chat/json_text.h"

namespace ds4::eval {
namespace {

Expected content(const std::string& text) { return {.text = text}; }

Expected calls(const std::string& json) {
  auto expected = expected_from_text(AnswerKind::kToolCalls, json, 0);
  EXPECT_TRUE(expected.has_value()) << json;
  return expected ? *expected : Expected{};
}

bool passes(const Expected& expected, const std::string& raw, bool thinking = false) {
  return grade(expected, {.raw = raw, .thinking = thinking}).passed;
}

TEST(Grade, TextIsComparedExactlyButForWhiteSpaceAtItsEnd) {
  EXPECT_TRUE(passes(content("4."), "4."));
  EXPECT_TRUE(passes(content("4."), "4. \n"));
  EXPECT_TRUE(passes(content("4.\n"), "4."));
  EXPECT_FALSE(passes(content("4."), " 4."));
  EXPECT_FALSE(passes(content("4."), "4"));
  EXPECT_FALSE(passes(content("a"), "A"));
  EXPECT_FALSE(passes(content("4."), ""));
  EXPECT_TRUE(passes(content(""), " "));
}

TEST(Grade, WhatStandsBeforeTheEndOfThinkingDoesNotCount) {
  EXPECT_TRUE(passes(content("4"), "2 and 2</think>4", true));
  EXPECT_TRUE(passes(content("4"), "<think>2 and 2</think>4", true));
  EXPECT_FALSE(passes(content("4"), "4", true)) << "no answer came";
  EXPECT_TRUE(passes(content("a</think>b"), "x</think>a</think>b", true)) << "the first one counts";
  const SplitAnswer split = split_answer("<think>r</think>c", true);
  EXPECT_EQ(split.reasoning, "r");
  EXPECT_EQ(split.content, "c");
}

std::string block(const std::string& name, const std::string& parameters) {
  return "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"" + name + "\">\n" + parameters +
         "</｜DSML｜invoke>\n</｜DSML｜tool_calls>";
}

std::string parameter(const std::string& name, const std::string& value, bool is_string) {
  return "<｜DSML｜parameter name=\"" + name + "\" string=\"" + (is_string ? "true" : "false") +
         "\">" + value + "</｜DSML｜parameter>\n";
}

TEST(Grade, CallsAreComparedByNameAndArguments) {
  const std::vector<Tool> tools = {{"timer", R"({"name":"timer","parameters":{"type":"object"}})"}};
  const auto graded = [&](const std::string& expected, const std::string& raw) {
    return grade(calls(expected), {.raw = raw, .tools = tools});
  };
  const std::string one = R"([{"name":"timer","arguments":{"minutes":61,"text":"up"}}])";
  const std::string minutes = parameter("minutes", "61", false),
                    text = parameter("text", "up", true);
  EXPECT_TRUE(graded(one, "\n\n" + block("timer", minutes + text)).passed);
  EXPECT_TRUE(graded(one, "I will.\n\n" + block("timer", text + minutes)).passed) << "any order";
  EXPECT_FALSE(graded(one, "\n\n" + block("alarm", minutes + text)).passed);
  EXPECT_FALSE(graded(one, "\n\n" + block("timer", minutes)).passed);
  EXPECT_FALSE(graded(one, "\n\n" + block("timer", parameter("minutes", "61", true) + text)).passed)
      << "a string is no number";
  EXPECT_TRUE(
      graded(one, "\n\n" + block("timer", parameter("minutes", "61.0", false) + text)).passed);
  const Grade none = graded(one, "The timer is set.");
  EXPECT_FALSE(none.passed);
  EXPECT_EQ(none.picked, "[]");
  const std::string two =
      R"([{"name":"timer","arguments":{}},{"name":"timer","arguments":{"a":1}}])";
  EXPECT_FALSE(graded(two, "\n\n" + block("timer", "")).passed) << "one call too few";
}

TEST(Grade, JsonValuesAreEqualWhateverTheirSpelling) {
  const auto equal = [](const char* a, const char* b) {
    return json_equal(*parse_json(a), *parse_json(b));
  };
  EXPECT_TRUE(equal(R"({"a":1,"b":[1,2]})", R"({"b":[1,2],"a":1})"));
  EXPECT_FALSE(equal(R"({"a":1})", R"({"a":1,"b":2})"));
  EXPECT_FALSE(equal("[1,2]", "[2,1]"));
  EXPECT_TRUE(equal("1", "1.0"));
  EXPECT_TRUE(equal("100", "1e2"));
  EXPECT_TRUE(equal("1.50", "1.5"));
  EXPECT_FALSE(equal("1", "2"));
  EXPECT_FALSE(equal("9007199254740993", "9007199254740992")) << "beyond what a double holds";
  EXPECT_FALSE(equal("1", "\"1\""));
  EXPECT_FALSE(equal("1", "true"));
  EXPECT_FALSE(equal("null", "false"));
  EXPECT_FALSE(equal("{}", "[]"));
  EXPECT_TRUE(equal("\"\\u00e4\"", "\"ä\""));
}

TEST(Grade, QuestionsAreGradedByWhatIsPicked) {
  const Expected choice{.kind = AnswerKind::kChoice, .text = "B", .n_choices = 4};
  EXPECT_TRUE(passes(choice, "A seems right.</think>Answer: B", true));
  EXPECT_FALSE(passes(choice, "Answer: B</think>Answer: C", true));
  EXPECT_TRUE(passes(choice, "Answer: B", true)) << "thinking that never ended may still answer";
  EXPECT_FALSE(passes(choice, "", true));
  const Expected integer{.kind = AnswerKind::kInteger, .text = "70"};
  EXPECT_TRUE(passes(integer, "Answer: 070"));
  EXPECT_FALSE(passes(integer, "Answer: 70.5"));
}

TEST(Grade, LinesAreRightWhenEachIsAccepted) {
  const Expected lines{.kind = AnswerKind::kLineSet, .lines = {{10, 12}, {13, 14}, {20, 20}}};
  EXPECT_TRUE(passes(lines, "Answer: 11"));
  EXPECT_TRUE(passes(lines, "Answer: 20, 10-14")) << "a range may span two accepted ones";
  EXPECT_FALSE(passes(lines, "Answer: 12, 15"));
  EXPECT_FALSE(passes(lines, "Answer: 14-20"));
  EXPECT_FALSE(passes(lines, "Answer: 12-10")) << "backwards";
  EXPECT_FALSE(passes(lines, "Answer: none"));
  EXPECT_FALSE(passes(lines, "Answer: 1-99999999999999999999"));
}

// What stands in a report can be graded against again.
TEST(Grade, ExpectationsSurviveTheirText) {
  const std::vector<Expected> all = {
      content("two\nlines"),
      {.kind = AnswerKind::kChoice, .text = "B", .n_choices = 4},
      {.kind = AnswerKind::kInteger, .text = "-5"},
      {.kind = AnswerKind::kLineSet, .lines = {{3, 3}, {5, 9}}},
      calls(R"([{"name":"f","arguments":{"a":[1,null,"x"]}},{"name":"g","arguments":{}}])")};
  for (const Expected& expected : all) {
    const auto back = expected_from_text(expected.kind, to_text(expected), expected.n_choices);
    ASSERT_TRUE(back.has_value()) << to_text(expected);
    EXPECT_EQ(to_text(*back), to_text(expected));
    EXPECT_EQ(back->lines, expected.lines);
    EXPECT_EQ(back->calls.size(), expected.calls.size());
  }
  EXPECT_FALSE(expected_from_text(AnswerKind::kLineSet, "x", 0).has_value());
  EXPECT_FALSE(expected_from_text(AnswerKind::kToolCalls, "{}", 0).has_value());
  EXPECT_FALSE(expected_from_text(AnswerKind::kToolCalls, "[{}]", 0).has_value());
}

}  // namespace
}  // namespace ds4::eval
