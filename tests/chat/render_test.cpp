#include "chat/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/chat/conversations.h"
#include "tests/tokenizer/vocabs.h"

namespace ds4 {
namespace {

using test::A;
using test::B;
using test::conversation;
using test::E;
using test::message;
using test::prompt;
using test::U;
using testing::HasSubstr;

constexpr RenderOptions kThinking{};
constexpr RenderOptions kChat{.thinking = {ThinkingMode::kChat}};

RenderOptions options_of(const nlohmann::ordered_json& line) {
  RenderOptions options;
  if (line.contains("effort"))
    options.thinking = parse_effort(line["effort"].get<std::string>()).value();
  if (line.at("mode") == "chat") options.thinking.mode = ThinkingMode::kChat;
  options.profile =
      select_effort_profile(line.value("profile", std::string("preview")), {}).value();
  options.drop_thinking = line.value("drop_thinking", true);
  return options;
}

// The 42 known prompts, byte for byte; and as tokens they are what the joined text encodes to.
TEST(Render, EqualsTheReferencePrompts) {
  for (const auto& line : test::read_json_lines("chat/render_cases.jsonl", 42)) {
    SCOPED_TRACE(line.at("id").get<std::string>());
    Conversation made =
        conversation(line.at("messages").dump(), line.at("tools").dump(), {.internal = true});
    if (line.contains("response_format"))
      made.response_schema = write_json(line["response_format"]);
    const RenderOptions options = options_of(line);
    EXPECT_EQ(prompt(made, options), line.at("expected").get<std::string>());

    const bool forged = line.at("id") == "arg-closing-marker-inside-string";
    const Tokenizer& v4 = test::v4_tokenizer();
    const auto tokens = render_tokens(made, options, v4);
    ASSERT_TRUE(tokens.has_value()) << tokens.error().message;
    EXPECT_EQ(*tokens == v4.encode_rendered(line["expected"].get<std::string>()), !forged);
  }
}

// What 42 cases of plain numbers do not show: the JSON a client sent reaches the model digit by
// digit.
TEST(Render, NumbersOfSchemasAndArgumentsKeepTheirText) {
  const std::string text = prompt(conversation(
      R"([{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"x\":1e5,\"y\":12345678901234567890123}"}}]}])",
      R"([{"function":{"name":"f","parameters":{"maximum":1.50,"minimum":-1E-3}}}])"));
  EXPECT_THAT(text, HasSubstr(R"({"maximum": 1.50, "minimum": -1E-3})"));
  EXPECT_THAT(text, HasSubstr("name=\"x\" string=\"false\">1e5</"));
  EXPECT_THAT(text, HasSubstr("name=\"y\" string=\"false\">12345678901234567890123</"));
}

// BC-04 for the placements the format has. The report asks for the first system message wherever it
// is; the reference encoder takes the first *message* if it is a system one, and so do we.
TEST(Render, ToolsGoToTheFirstMessageIfItIsASystemOne) {
  const auto with_tools = [](const char* messages) {
    return prompt(conversation(messages, test::kBashTool), kChat);
  };
  const auto starts = [](const std::string& text, const std::string& start) {
    return text.starts_with(start + "\n\n## Tools\n\n");
  };
  EXPECT_TRUE(starts(
      with_tools(R"([{"role":"system","content":"S"},{"role":"user","content":"U"}])"), B + "S"));
  EXPECT_TRUE(starts(with_tools(R"([{"role":"user","content":"U"}])"), B));
  EXPECT_TRUE(
      starts(with_tools(R"([{"role":"user","content":"U"},{"role":"system","content":"S"}])"), B));
  const std::string two = with_tools(
      R"([{"role":"system","content":"S"},{"role":"system","content":"T"},{"role":"user","content":"U"}])");
  EXPECT_TRUE(starts(two, B + "S"));
  EXPECT_TRUE(two.ends_with("to invoke tool calls.\nT" + U + "U" + A + "</think>"));
}

// BC-05: system text in the middle stays apart from user text, and every answer has its marker.
TEST(Render, SystemTextInTheMiddleDoesNotMergeIntoTheUsers) {
  EXPECT_EQ(
      prompt(conversation(
          R"([{"role":"system","content":"A"},{"role":"user","content":"hi"},{"role":"system","content":"Agents: x"},{"role":"user","content":"go"}])")),
      B + "A" + U + "hi\n\nAgents: x" + U + "go" + A + "<think>");
  EXPECT_EQ(
      prompt(conversation(
          R"([{"role":"user","content":"hi"},{"role":"system","content":"S"},{"role":"assistant","content":"a"},{"role":"user","content":"go"}])")),
      B + U + "hi\n\nS" + A + "</think>a" + E + U + "go" + A + "<think>");
  EXPECT_EQ(
      prompt(conversation(R"([{"role":"user","content":"hi"},{"role":"system","content":"S"}])")),
      B + U + "hi\n\nS" + A + "<think>");
  const std::string five = prompt(conversation(
      R"([{"role":"system","content":"S"},{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"system","content":"T"},{"role":"user","content":"c"}])"));
  EXPECT_EQ(five, B + "S" + U + "a" + A + "</think>b" + E + "T" + U + "c" + A + "<think>");
}

// BC-07: without tools the old developer text goes with the old reasoning, with tools both stay.
TEST(Render, DeveloperTurnsAreDroppedWithTheOldReasoning) {
  Conversation made;
  made.messages = {message(Role::kDeveloper, "D1"), message(Role::kUser, "q1"),
                   message(Role::kAssistant, "a1", "r1"), message(Role::kDeveloper, "D2"),
                   message(Role::kUser, "q2")};
  EXPECT_EQ(prompt(made), B + U + "q1" + A + "</think>a1" + E + U + "q2" + A + "<think>");
  EXPECT_EQ(prompt(made, kChat),
            B + U + "D1" + U + "q1" + A + "</think>a1" + E + U + "D2" + U + "q2" + A + "</think>");
  made.tools = parse_tools(test::json(test::kBashTool)).value();
  EXPECT_TRUE(prompt(made).ends_with(U + "q1" + A + "<think>r1</think>a1" + E + U + "D2" + U +
                                     "q2" + A + "<think>"));
  EXPECT_TRUE(prompt(made).starts_with(B + U + "D1\n\n## Tools"));

  made.messages = {message(Role::kDeveloper, "")};
  EXPECT_EQ(render(made, kThinking).error().code, ErrorCode::kInvalidArgument);
}

// BC-08: results of parallel calls in any order give one prompt; the order is that of the latest
// calls.
TEST(Render, ParallelResultsTakeTheOrderOfTheirCalls) {
  const auto prompt_of = [](const char* results) {
    return prompt(conversation(
        std::string(
            R"([{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"bash"}},{"id":"c2","function":{"name":"bash"}}]},)") +
            results + "]",
        test::kBashTool));
  };
  const std::string in_order = prompt_of(
      R"({"role":"tool","tool_call_id":"c1","content":"1"},{"role":"tool","tool_call_id":"c2","content":"2"})");
  EXPECT_EQ(
      in_order,
      prompt_of(
          R"({"role":"tool","tool_call_id":"c2","content":"2"},{"role":"tool","tool_call_id":"c1","content":"1"})"));
  EXPECT_TRUE(in_order.ends_with("<tool_result>1</tool_result>\n\n<tool_result>2</tool_result>" +
                                 A + "<think>"));
}

TEST(Render, ResultsOfUnknownCallsCountAsFirst) {
  Conversation made;
  made.messages = {message(Role::kAssistant, ""), message(Role::kTool, "b"),
                   message(Role::kTool, "?"), message(Role::kTool, "a")};
  made.messages[0].tool_calls = {{"k1", "f", "{}"}, {"k2", "f", "{}"}};
  made.messages[1].tool_call_id = "k2";
  made.messages[2].tool_call_id = "unknown";
  made.messages[3].tool_call_id = "k1";
  EXPECT_TRUE(
      prompt(made).ends_with("<tool_result>?</tool_result>\n\n<tool_result>a</"
                             "tool_result>\n\n<tool_result>b</tool_result>" +
                             A + "<think>"));
}

// BC-11: an empty assistant turn has its official form, however the client spells it.
TEST(Render, EmptyAssistantTurnsKeepTheirPlace) {
  for (const char* content : {"\"\"", "null", "[]"}) {
    EXPECT_EQ(prompt(conversation(
                  std::string(R"([{"role":"user","content":"a"},{"role":"assistant","content":)") +
                  content + R"(},{"role":"user","content":"Say hi"}])")),
              B + U + "a" + A + "</think>" + E + U + "Say hi" + A + "<think>");
  }
}

TEST(Render, TrailingRemindersComeBeforeTheHeader) {
  Conversation made;
  made.messages = {message(Role::kUser, "day?"), message(Role::kReminder, "Rome"),
                   message(Role::kReminder, "May")};
  const std::string reminder(spelling::kLatestReminder);
  EXPECT_EQ(prompt(made), B + U + "day?" + reminder + "Rome" + reminder + "May" + A + "<think>");
}

TEST(Render, TasksCloseTheirTurn) {
  Conversation made;
  made.messages = {message(Role::kUser, "a"), message(Role::kUser, "b")};
  made.messages[0].task = Task::kQuery;
  EXPECT_EQ(prompt(made), B + U + "a" + U + "b" + A + "<think>");
  made.messages[1].task = Task::kReadUrl;
  EXPECT_EQ(prompt(made), B + U + "a" + U + "b<｜read_url｜>");
}

TEST(Render, ArgumentsThatAreNoObjectAreOneRawParameter) {
  Conversation made;
  made.messages = {message(Role::kAssistant, "")};
  for (const char* arguments : {"[1,2]", "7", "\"s\"", "{bad", "null", "{\"a\":1}x"}) {
    made.messages[0].tool_calls = {{"c", "f", arguments}};
    EXPECT_THAT(prompt(made),
                HasSubstr(std::string("<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter "
                                      "name=\"arguments\" string=\"true\">") +
                          arguments + "</｜DSML｜parameter>\n</｜DSML｜invoke>"));
  }
  made.messages[0].tool_calls = {{"c", "f", std::string(1000, '[')}};
  EXPECT_EQ(render(made, kThinking).error().code, ErrorCode::kUnsupported);
}

TEST(Render, EmptyConversationIsBosAlone) {
  EXPECT_EQ(prompt({}), B);
  EXPECT_EQ(prompt(conversation("[]", "[]")), B);
}

// BC-52's kind: one message with its members in each order.
TEST(Render, MemberOrderDoesNotMatter) {
  const std::string expected = prompt(conversation(R"([{"role":"user","content":"x"}])"));
  EXPECT_EQ(prompt(conversation(R"([{"content":"x","role":"user"}])")), expected);
}

TEST(RenderTokens, MarkersTheVocabularyLacksAreAnError) {
  Conversation made;
  made.messages = {message(Role::kUser, "q")};
  made.messages[0].task = Task::kQuery;
  EXPECT_TRUE(render_tokens(made, kThinking, test::v4_tokenizer()).has_value());
  const auto tokens = render_tokens(made, kThinking, test::nano_tokenizer());
  EXPECT_EQ(tokens.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(tokens.error().message, HasSubstr("<｜query｜>"));
}

// Nano's own evaluation cases render in both modes without a surprise.
TEST(RenderTokens, NanoCasesRoundTrip) {
  std::ifstream file(DS4_SOURCE_DIR "/models/nano/cases.jsonl");
  int n = 0;
  for (std::string line; std::getline(file, line); ++n) {
    const auto entry = test::json(line);
    const Conversation made =
        conversation(write_json(entry.at("messages")),
                     entry.contains("tools") ? write_json(entry["tools"]) : "null");
    const RenderOptions options = entry.value("think", false) ? kThinking : kChat;
    const auto tokens = render_tokens(made, options, test::nano_tokenizer());
    ASSERT_TRUE(tokens.has_value()) << tokens.error().message;
    EXPECT_EQ(test::nano_tokenizer().decode(*tokens), prompt(made, options));
  }
  EXPECT_EQ(n, 480);
}

}  // namespace
}  // namespace ds4
