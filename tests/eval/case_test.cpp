#include "eval/case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "eval/prompt.h"
#include "tests/base/temp_folder.h"

namespace ds4::eval {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string error_of(std::string_view text) {
  const auto cases = parse_cases(text, "f.jsonl");
  EXPECT_FALSE(cases.has_value()) << text;
  return cases ? "" : cases.error().message;
}

Case only(std::string_view text) {
  auto cases = parse_cases(text, "f.jsonl");
  EXPECT_TRUE(cases.has_value()) << (cases ? "" : cases.error().message);
  return cases && cases->size() == 1 ? std::move((*cases)[0]) : Case{};
}

std::string question(const std::string& rest) {
  return R"({"id":"q","question":"How many?",)" + rest + "}";
}

// The suite inside the program is the tracked file, byte for byte, and all of it can be read.
TEST(Cases, TheBuiltInSuiteIsTheTrackedFile) {
  std::stringstream file;
  file << std::ifstream(DS4_SOURCE_DIR "/models/nano/cases.jsonl", std::ios::binary).rdbuf();
  ASSERT_EQ(nano_suite_text(), file.str());
  const auto cases = parse_cases(nano_suite_text(), "nano");
  ASSERT_TRUE(cases.has_value()) << cases.error().message;
  EXPECT_EQ(cases->size(), 480u);
  int64_t calls = 0;
  for (const Case& c : *cases) calls += c.expected.kind == AnswerKind::kToolCalls ? 1 : 0;
  EXPECT_EQ(calls, 120);
}

TEST(Cases, ReadsAConversation) {
  const Case c = only(
      "\xEF\xBB\xBF\r\n"
      R"({"id":"t1","kind":"tool","think":true,"messages":[{"role":"user","content":"Long text.\nWake me."}],)"
      R"("tools":[{"type":"function","function":{"name":"timer","parameters":{}}}],)"
      R"("expect":{"tool_calls":[{"name":"timer","arguments":{"minutes":61}}]}})"
      "\r\n\r\n");
  EXPECT_EQ(c.id, "t1");
  EXPECT_EQ(c.source, "tool");
  EXPECT_EQ(c.title, "Wake me.");
  EXPECT_EQ(c.line, 2);
  EXPECT_EQ(c.think, true);
  EXPECT_EQ(c.conversation.tools.size(), 1u);
  EXPECT_EQ(c.expected.kind, AnswerKind::kToolCalls);
  ASSERT_EQ(c.expected.calls.size(), 1u);
  EXPECT_EQ(c.expected.calls[0].name, "timer");
  EXPECT_EQ(c.expected.calls[0].arguments, R"({"minutes": 61})");
}

TEST(Cases, TheAnswerOfAQuestionSaysHowItIsGraded) {
  const Case choice = only(question(R"("choices":["one","two"],"answer":"b")"));
  EXPECT_EQ(choice.expected.kind, AnswerKind::kChoice);
  EXPECT_EQ(choice.expected.text, "B");
  EXPECT_EQ(choice.choices.size(), 2u);
  EXPECT_EQ(choice.source, "question");
  for (const char* answer : {"70", R"("070")", R"("70")"}) {
    const Case integer = only(question(R"("answer":)" + std::string(answer)));
    EXPECT_EQ(integer.expected.kind, AnswerKind::kInteger) << answer;
    EXPECT_EQ(integer.expected.text, "70") << answer;
  }
  const Case lines = only(question(R"("answer":"70, 80-82")"));
  EXPECT_EQ(lines.expected.kind, AnswerKind::kLineSet);
  EXPECT_EQ(lines.expected.lines, (std::vector<LineRange>{{70, 70}, {80, 82}}));
  EXPECT_EQ(only(question(R"("answer":[7])")).expected.kind, AnswerKind::kLineSet);
  EXPECT_EQ(only(question(R"("source":"COMPSEC","answer":"7")")).expected.kind,
            AnswerKind::kLineSet);
}

// Each message names the file, the line, what was expected and what was found.
TEST(Cases, MalformedFilesAreRefusedWithTheLine) {
  const std::string good = R"({"id":"a","question":"?","answer":1})";
  EXPECT_THAT(error_of(""), AllOf(StartsWith("f.jsonl: expected cases"), HasSubstr("none")));
  EXPECT_THAT(error_of("\n \n"), StartsWith("f.jsonl: expected cases"));
  EXPECT_THAT(error_of(good + "\n{"), StartsWith("f.jsonl:2: "));
  EXPECT_THAT(error_of("[1]"), StartsWith("f.jsonl:1: expected an object, found array"));
  EXPECT_THAT(error_of("7"), StartsWith("f.jsonl:1: expected an object, found number"));
  EXPECT_THAT(error_of("{}"), HasSubstr("`expect`"));
  EXPECT_THAT(error_of(good + "\n\n" + good), StartsWith("f.jsonl:3: id: expected another than "
                                                         "that of line 1, found 'a'"));
  EXPECT_THAT(error_of("{\"id\":\"\xff\"}"), StartsWith("f.jsonl:1: expected UTF-8"));
  EXPECT_THAT(error_of(std::string("\0\0\0", 3)), StartsWith("f.jsonl:1: "));
  EXPECT_THAT(error_of(R"({"id":7,"question":"?","answer":1})"), HasSubstr("id: expected a str"));
  EXPECT_THAT(error_of(R"({"id":"","question":"?","answer":1})"), HasSubstr("id: expected text"));
  EXPECT_THAT(error_of(R"({"id":"a\n","question":"?","answer":1})"), HasSubstr("control"));
  EXPECT_THAT(error_of(R"({"id":")" + std::string(300, 'x') + R"(","question":"?","answer":1})"),
              HasSubstr("at most 256 bytes"));
  EXPECT_THAT(error_of(R"({"question":"?","answer":1})"), HasSubstr("id: expected a string"));
  EXPECT_THAT(error_of(R"({"id":"a","question":[],"answer":1})"), HasSubstr("question: expected"));
  EXPECT_THAT(error_of(R"({"id":"a","question":" ","answer":1})"), HasSubstr("question: expected"));
}

TEST(Cases, WrongAnswersAndExpectationsAreRefused) {
  EXPECT_THAT(error_of(question(R"("choices":[])")), HasSubstr("answer: expected"));
  EXPECT_THAT(error_of(question(R"("answer":1.5)")), HasSubstr("answer: expected an integer"));
  EXPECT_THAT(error_of(question(R"("answer":"x")")), HasSubstr("answer: expected an integer"));
  EXPECT_THAT(error_of(question(R"("answer":[])")), HasSubstr("answer: expected an integer"));
  EXPECT_THAT(error_of(question(R"("answer":[1,"2"])")), HasSubstr("answer: expected"));
  EXPECT_THAT(error_of(question(R"("answer":"9-3")")), HasSubstr("answer: expected"));
  EXPECT_THAT(error_of(question(R"("answer":[0])")), HasSubstr("answer: expected"));
  EXPECT_THAT(error_of(question(R"("choices":["a","b"],"answer":"C")")),
              HasSubstr("a letter from A to B"));
  EXPECT_THAT(error_of(question(R"("choices":["a","b"],"answer":1)")), HasSubstr("a letter"));
  EXPECT_THAT(error_of(question(R"("choices":"ab","answer":"A")")), HasSubstr("choices: expected"));
  EXPECT_THAT(error_of(question(R"("choices":["a",2],"answer":"A")")), HasSubstr("choices[1]:"));
  EXPECT_THAT(error_of(question(R"("choices":["","","","","","","","","","",""],"answer":"A")")),
              HasSubstr("at most 10"));

  const auto conversation = [](const std::string& expect) {
    return R"({"id":"a","messages":[{"role":"user","content":"x"}],"expect":)" + expect + "}";
  };
  EXPECT_THAT(error_of(conversation("7")), HasSubstr("expect: expected an object"));
  EXPECT_THAT(error_of(conversation("{}")), HasSubstr("found neither"));
  EXPECT_THAT(error_of(conversation(R"({"content":"a","tool_calls":[]})")), HasSubstr("both"));
  EXPECT_THAT(error_of(conversation(R"({"content":7})")), HasSubstr("expect.content"));
  EXPECT_THAT(error_of(conversation(R"({"tool_calls":[]})")), HasSubstr("at least one"));
  EXPECT_THAT(error_of(conversation(R"({"tool_calls":[7]})")), HasSubstr("tool_calls[0]: expec"));
  EXPECT_THAT(error_of(conversation(R"({"tool_calls":[{"name":"f"}]})")),
              HasSubstr("tool_calls[0]: arguments: expected an object"));
  EXPECT_THAT(error_of(conversation(R"({"tool_calls":[{"name":"f","arguments":"{}"}]})")),
              HasSubstr("arguments: expected an object, found string"));
  EXPECT_THAT(error_of(R"({"id":"a","expect":{"content":"x"}})"), HasSubstr("messages: expected"));
  EXPECT_THAT(error_of(R"({"id":"a","messages":[],"expect":{"content":"x"}})"),
              HasSubstr("a last message to answer"));
  EXPECT_THAT(error_of(R"({"id":"a","messages":[{"role":"assistant","content":"x"}],)"
                       R"("expect":{"content":"x"}})"),
              HasSubstr("a last message to answer"));
  EXPECT_THAT(error_of(R"({"id":"a","think":"yes","messages":[{"role":"user","content":"x"}],)"
                       R"("expect":{"content":"x"}})"),
              HasSubstr("think: expected true or false"));
  EXPECT_THAT(error_of(R"({"id":"a","messages":[{"role":"king"}],"expect":{"content":"x"}})"),
              StartsWith("f.jsonl:1: messages[0].role"));
}

TEST(Cases, AFolderAndAMissingFileAreErrors) {
  const TempFolder folder;
  const auto directory = load_cases(folder.path());
  ASSERT_FALSE(directory.has_value());
  EXPECT_THAT(directory.error().message, HasSubstr(folder.path()));
  const auto missing = load_cases(folder.path() + "/none.jsonl");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
}

TEST(Cases, LongTitlesAreCutBetweenCharacters) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "ä";
  const Case c = only(R"({"id":"a","question":")" + text + R"(","answer":1})");
  EXPECT_LE(c.title.size(), 124u);
  EXPECT_THAT(c.title, testing::EndsWith("ä…"));
}

// A case with its expected answer as one chat: the prompt the case gives, then what a right answer
// says, then the end of the turn.
TEST(Cases, AreRenderedWithTheirExpectedAnswers) {
  const std::string end = "<｜end▁of▁sentence｜>";
  const Case content = only(
      R"({"id":"a","think":false,"messages":[{"role":"user","content":"Moo?"}],"expect":{"content":"Moo."}})");
  const auto chat = rendered_chat(content, {});
  ASSERT_TRUE(chat) << chat.error().message;
  EXPECT_EQ(*chat, "<｜begin▁of▁sentence｜><｜User｜>Moo?<｜Assistant｜></think>Moo." + end);
  const Case tool = only(
      R"({"id":"b","think":false,"messages":[{"role":"user","content":"Wake me."}],"tools":[{"type":"function","function":{"name":"set_timer","parameters":{"type":"object","properties":{"minutes":{"type":"integer"}}}}}],"expect":{"tool_calls":[{"name":"set_timer","arguments":{"minutes":61}}]}})");
  const auto called = rendered_chat(tool, {});
  ASSERT_TRUE(called) << called.error().message;
  EXPECT_THAT(*called, HasSubstr(R"(<｜DSML｜invoke name="set_timer">)"));
  EXPECT_THAT(*called, HasSubstr(R"(name="minutes" string="false">61<)"));
  EXPECT_TRUE(called->ends_with("</｜DSML｜tool_calls>" + end)) << *called;
  const auto lines = rendered_chat(only(question(R"("answer":"12, 15-17")")), {});
  ASSERT_TRUE(lines) << lines.error().message;
  EXPECT_TRUE(lines->ends_with("Answer: 12, 15-17" + end)) << *lines;
}

}  // namespace
}  // namespace ds4::eval
