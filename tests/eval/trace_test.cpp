#include "eval/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "eval/grade.h"
#include "eval/report.h"
#include "eval/text.h"

namespace ds4::eval {
namespace {

using testing::HasSubstr;

Case case_of(const std::string& line) {
  auto cases = parse_cases(line, "test");
  if (!cases) throw std::runtime_error(cases.error().message);
  return std::move((*cases)[0]);
}

// Cases of every kind, and answers that look like frames of the trace.
struct Sample {
  std::vector<Case> cases;
  std::vector<Outcome> outcomes;
  std::vector<Prompt> prompts;
  std::string trace;

  void add(const std::string& line, const std::string& output, bool thinking) {
    const Case& c = cases.emplace_back(case_of(line));
    Outcome o{.index = outcomes.size(), .id = c.id, .source = c.source, .title = c.title};
    o.answer_kind = c.expected.kind;
    o.n_choices = c.expected.n_choices;
    o.expected = to_text(c.expected);
    o.thinking = thinking;
    o.output = output;
    o.prompt_tokens = 7;
    o.generated_tokens = std::ssize(output);
    o.elapsed_seconds = 1.25;
    if (thinking) o.think_close = {CloseKind::kSoftForced, 3, 900, 2};
    const Grade g =
        grade(c.expected, {.raw = output, .thinking = thinking, .tools = c.conversation.tools});
    o.status = g.passed ? CaseStatus::kPassed : CaseStatus::kFailed;
    o.picked = g.picked;
    outcomes.push_back(o);
    prompts.push_back({.system = "be exact", .question = "what\n===== CASE 9/9 x/y =====\n"});
  }

  Sample() {
    add(R"({"id":"text","kind":"k","messages":[{"role":"user","content":"q"}],)"
        R"("expect":{"content":"two\nlines\\"}})",
        "MODEL_OUTPUT_END\n</think>two\nlines\\", true);
    add(R"({"id":"frame","kind":"k","messages":[{"role":"user","content":"q"}],)"
        R"("expect":{"content":"x"}})",
        "MODEL_OUTPUT_END\n===== CASE 1/1 a/b =====\nstatus: passed\n", false);
    add(R"({"id":"call","kind":"tools","messages":[{"role":"user","content":"q"}],)"
        R"("tools":[{"type":"function","function":{"name":"f","parameters":{}}}],)"
        R"("expect":{"tool_calls":[{"name":"f","arguments":{"a":[1,"\n"]}}]}})",
        "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" "
        "string=\"false\">[1, \"\\n\"]</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
        "</｜DSML｜tool_calls>",
        false);
    add(R"({"id":"choice","source":"S","question":"?","choices":["a: b","c"],"answer":"B"})",
        "Answer: B", false);
    add(R"({"id":"number","source":"S","question":"?","answer":5})", "\x01\xff Answer: 6", false);
    add(R"({"id":"lines","source":"S","question":"?","answer":"3, 5-9"})", "Answer: 6-7", false);
    outcomes[4].finish = Finish::kLength;
    Outcome broken = outcomes[3];
    broken.id = "broken";
    broken.index = 6;
    broken.status = CaseStatus::kError;
    broken.picked = broken.output = "";
    broken.error = "no\nmemory";
    cases.push_back(cases[3]);
    outcomes.push_back(broken);
    prompts.push_back({});

    trace = trace_header({.model = "m.gguf", .backend = "cpu", .ctx = 100, .questions = 7});
    for (size_t i = 0; i < cases.size(); ++i) {
      trace += trace_case(outcomes[i], std::ssize(cases), cases[i], prompts[i], {});
    }
  }
};

TEST(Trace, GradingItAgainGivesTheSameOutcomes) {
  const Sample sample;
  const auto back = regrade_trace(sample.trace, "t");
  ASSERT_TRUE(back.has_value()) << back.error().message;
  ASSERT_EQ(back->outcomes.size(), sample.outcomes.size());
  int64_t passed = 0;
  for (size_t i = 0; i < sample.outcomes.size(); ++i) {
    const Outcome &a = sample.outcomes[i], &b = back->outcomes[i];
    EXPECT_EQ(b.index, i);
    EXPECT_EQ(b.id, a.id);
    EXPECT_EQ(b.source, a.source);
    EXPECT_EQ(b.title, a.title);
    EXPECT_EQ(b.status, a.status) << a.id;
    EXPECT_EQ(b.picked, a.picked) << a.id;
    EXPECT_EQ(b.expected, a.expected) << a.id;
    EXPECT_EQ(b.error, a.error);
    EXPECT_EQ(b.output, a.output);
    EXPECT_EQ(b.think_close, a.think_close);
    EXPECT_EQ(b.finish, a.finish);
    EXPECT_EQ(b.prompt_tokens, a.prompt_tokens);
    EXPECT_EQ(b.generated_tokens, a.generated_tokens);
    EXPECT_EQ(b.elapsed_seconds, a.elapsed_seconds);
    passed += b.status == CaseStatus::kPassed;
  }
  EXPECT_EQ(passed, 4) << "text, call, choice, lines";
  EXPECT_EQ(totals_table(total(back->outcomes)), totals_table(total(sample.outcomes)));
}

// What the trace claims does not count, only what the model said.
TEST(Trace, AStatusInTheTraceIsNotBelieved) {
  std::string text = Sample().trace;
  const std::string from = "status: failed\npicked: 6";
  ASSERT_NE(text.find(from), std::string::npos);
  text.replace(text.find(from), from.size(), "status: passed\npicked: 5");
  const auto back = regrade_trace(text, "t");
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->outcomes[4].status, CaseStatus::kFailed);
  EXPECT_EQ(back->outcomes[4].picked, "6");
}

TEST(Trace, ACaseThatRanTwiceCountsAsItCameLast) {
  Sample sample;
  Outcome again = sample.outcomes[4];
  again.output = "Answer: 5";
  sample.trace += trace_case(again, 7, sample.cases[4], sample.prompts[4], {});
  const auto back = regrade_trace(sample.trace, "t");
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->outcomes.size(), sample.outcomes.size());
  EXPECT_EQ(back->outcomes[4].status, CaseStatus::kPassed);
}

// Cut anywhere, a trace is refused with its line or read as one with fewer cases; never more.
TEST(Trace, ACutTraceIsAnErrorOrAShorterOne) {
  const Sample sample;
  int64_t refused = 0, shorter = 0;
  for (size_t size = 0; size < sample.trace.size(); ++size) {
    const auto back = regrade_trace(std::string_view(sample.trace).substr(0, size), "t");
    if (!back) {
      EXPECT_EQ(back.error().code, ErrorCode::kCorrupt) << size;
      EXPECT_THAT(back.error().message, testing::StartsWith("t:"));
      ++refused;
    } else {
      EXPECT_LE(back->outcomes.size(), sample.outcomes.size());
      ++shorter;
    }
  }
  EXPECT_GT(refused, shorter);
  EXPECT_GE(shorter, 7) << "whole cases are worth keeping";
}

TEST(Trace, DamageIsRefusedWithItsLine) {
  const Sample sample;
  const auto error_with = [&](const std::string& from, const std::string& to) {
    std::string text = sample.trace;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    const auto back = regrade_trace(text, "t");
    EXPECT_FALSE(back.has_value()) << to;
    return back ? std::string() : back.error().message;
  };
  EXPECT_THAT(error_with("ds4-eval trace 1", "ds4-eval trace 2"), HasSubstr("t:1: expected a tr"));
  EXPECT_THAT(error_with("SYSTEM_PROMPT_BEGIN bytes=8", "SYSTEM_PROMPT_BEGIN bytes=9"),
              HasSubstr("SYSTEM_PROMPT_END"));
  EXPECT_THAT(error_with("bytes=8", "bytes=99999999999999999999"), HasSubstr("within the file"));
  EXPECT_THAT(error_with("bytes=8", "bytes=-1"), HasSubstr("within the file"));
  EXPECT_THAT(error_with("bytes=8", "bytes=88888888"), HasSubstr("within the file"));
  EXPECT_THAT(error_with("answer_kind: content", "answer_kind: poem"), HasSubstr("answer_kind"));
  EXPECT_THAT(error_with("status: passed", "status: wonderful"), HasSubstr("status"));
  EXPECT_THAT(error_with("elapsed_sec: 1.250", "elapsed_sec: nan"), HasSubstr("elapsed_sec"));
  EXPECT_THAT(error_with("prompt_tokens: 7", "prompt_tokens: -7"), HasSubstr("prompt_tokens"));
  EXPECT_THAT(error_with("think_close: none", "think_close"), HasSubstr("'name: value'"));
  EXPECT_THAT(error_with("expected: 3,5-9", "expected: x"), HasSubstr("line numbers"));
  EXPECT_THAT(error_with("expected: 3,5-9", "expected: \\q"), HasSubstr("\\xNN"));
  EXPECT_THAT(error_with("finish: stop\n", ""), HasSubstr("a field finish"));
}

TEST(Trace, LinesHoldAnyText) {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  const std::string line = escape_line(all);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(unescape_line(line).value_or("error"), all);
  for (const char* wrong : {"\\", "\\x", "\\x1", "\\xzz", "\\q", "\\x-1"}) {
    EXPECT_FALSE(unescape_line(wrong).has_value()) << wrong;
  }
}

}  // namespace
}  // namespace ds4::eval
