#include "chat/parse_messages.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/chat/conversations.h"

namespace ds4 {
namespace {

using test::json;
using testing::HasSubstr;
using testing::StartsWith;

std::string message_error(std::string_view messages, MessageOptions options = {}) {
  const auto parsed = parse_messages(json(messages), options);
  EXPECT_FALSE(parsed.has_value()) << messages;
  if (parsed) return {};
  EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
  return parsed.error().message;
}

std::string tools_error(std::string_view tools) {
  const auto parsed = parse_tools(json(tools));
  EXPECT_FALSE(parsed.has_value()) << tools;
  return parsed ? "" : parsed.error().message;
}

TEST(ParseMessages, NamesTheMemberAtFault) {
  EXPECT_THAT(message_error("{}"), StartsWith("messages: expected an array"));
  EXPECT_THAT(message_error("[7]"), StartsWith("messages[0]: expected an object, found number"));
  EXPECT_THAT(message_error("[{}]"), StartsWith("messages[0].role: expected system,"));
  EXPECT_THAT(message_error(R"([{"role":"root"}])"), HasSubstr("'root'"));
  EXPECT_THAT(message_error(R"([{"role":7}])"), StartsWith("messages[0].role: expected a string"));
  EXPECT_THAT(message_error(R"([{"role":"user","content":7}])"),
              StartsWith("messages[0].content:"));
  EXPECT_THAT(message_error(R"([{"role":"user","content":[7]}])"),
              StartsWith("messages[0].content[0]:"));
  EXPECT_THAT(message_error(R"([{"role":"user","content":[{"type":"text","text":7}]}])"),
              StartsWith("messages[0].content[0].text: expected a string"));
  EXPECT_THAT(message_error(R"([{"role":"assistant","prefix":1}])"),
              StartsWith("messages[0].prefix"));
  EXPECT_THAT(message_error(R"([{"role":"assistant","tool_calls":{}}])"),
              StartsWith("messages[0].tool_calls"));
  EXPECT_THAT(message_error(R"([{"role":"assistant","tool_calls":[{"id":"c"}]}])"),
              StartsWith("messages[0].tool_calls[0]"));
  EXPECT_THAT(
      message_error(
          R"([{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":3}}]}])"),
      StartsWith("messages[0].tool_calls[0].function.arguments"));
}

// BC-56: never silence. In a tool result the model sees that something was there.
TEST(ParseMessages, ImagesAreRefusedOrShownAsUnsupported) {
  EXPECT_THAT(message_error(
                  R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}])"),
              HasSubstr("'image_url'"));
  const auto parsed = parse_messages(json(R"([
      {"role":"assistant","tool_calls":[{"id":"c","function":{"name":"shot"}}]},
      {"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"a"},{"type":"image"}]}])"));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ((*parsed)[1].content, "a\n\n[Unsupported image]");
}

TEST(ParseMessages, TextPartsOfAUserAreJoinedDirectly) {
  const auto parsed = parse_messages(json(
      R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":""},{"type":"input_text","text":"b"}]}])"));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ((*parsed)[0].content, "ab");
}

// BC-03: a tool name that could end its tag is refused where it is declared and where it is
// replayed.
TEST(ParseTools, IllegalNamesAreRefused) {
  for (const char* name : {R"(a\"><x)", "", "a b", "a<b", "naïve", R"(a\nb)"}) {
    EXPECT_THAT(
        tools_error(std::string(R"([{"type":"function","function":{"name":")") + name + "\"}}]"),
        StartsWith("tools[0].function.name: expected"));
  }
  EXPECT_THAT(tools_error(R"([{"function":{"name":")" + std::string(129, 'a') + "\"}}]"),
              StartsWith("tools[0].function.name"));
  EXPECT_THAT(tools_error(R"([{"type":"web_search"}])"), StartsWith("tools[0]: expected"));
  EXPECT_THAT(tools_error("{}"), StartsWith("tools: expected an array"));
  EXPECT_TRUE(parse_tools(json(R"([{"function":{"name":"mcp__x/y.z:w-1"}}])")).has_value());
  EXPECT_THAT(
      message_error(
          R"([{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"a\"><x"}}]}])"),
      StartsWith("messages[0].tool_calls[0].function.name"));
}

constexpr const char* kTwoCalls =
    R"({"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"bash"}},{"id":"c2","function":{"name":"bash"}}]})";

// BC-08: a result must answer a call, once.
TEST(ParseMessages, UnknownAndDuplicateToolResultsAreRefused) {
  const auto with = [](const std::string& rest) { return fmt::format("[{}{}]", kTwoCalls, rest); };
  const auto result = [](const char* id) {
    return fmt::format(R"(,{{"role":"tool","content":"r","tool_call_id":"{}"}})", id);
  };
  EXPECT_THAT(
      message_error(with(result("c3"))),
      StartsWith("messages[1].tool_call_id: no earlier assistant message has a call with id 'c3'"));
  EXPECT_THAT(message_error(with(result("c2") + result("c2"))),
              StartsWith("messages[2].tool_call_id: the call 'c2' has a result already"));
  EXPECT_THAT(message_error(with(R"(,{"role":"tool","content":"r"})")), HasSubstr("id ''"));
  EXPECT_THAT(message_error(R"([{"role":"tool","tool_call_id":"c1"}])"), HasSubstr("'c1'"));
  EXPECT_THAT(message_error(R"([{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]}])"),
              StartsWith("messages[0].tool_calls[0].id"));
  EXPECT_THAT(
      message_error(
          R"([{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f"}},{"id":"c","function":{"name":"g"}}]}])"),
      StartsWith("messages[0].tool_calls[1].id"));
  // The same ids again in a later turn are new calls.
  const std::string turn = kTwoCalls + result("c1") + result("c2");
  EXPECT_TRUE(parse_messages(json(fmt::format("[{},{}]", turn, turn))).has_value());
}

// BC-48: the same prompt for null, absent, empty; and for each way to write no arguments.
TEST(ParseMessages, EmptyContentAndArgumentsHaveManySpellings) {
  std::string expected;
  for (const char* content : {R"("content":null,)", "", R"("content":"",)", R"("content":[],)"}) {
    for (const char* arguments :
         {R"(,"arguments":"")", "", R"(,"arguments":{})", R"(,"arguments":"{}")",
          R"(,"arguments":null)", R"(,"arguments":" ")"}) {
      const std::string text =
          std::string(R"([{"role":"user","content":"q"},{"role":"assistant",)") + content +
          R"("tool_calls":[{"id":"c","function":{"name":"now")" + arguments +
          R"(}}]},{"role":"tool","tool_call_id":"c","content":null}])";
      const std::string rendered = test::prompt(test::conversation(text));
      if (expected.empty()) expected = rendered;
      EXPECT_EQ(rendered, expected) << text;
    }
  }
  EXPECT_THAT(expected, HasSubstr("<｜DSML｜invoke name=\"now\">\n\n</｜DSML｜invoke>"));
}

TEST(ParseMessages, ArgumentsAsObjectEqualArgumentsAsString) {
  const auto prompt_of = [](const char* arguments) {
    return test::prompt(test::conversation(
        std::string(
            R"([{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":)") +
        arguments + "}}]}]"));
  };
  EXPECT_EQ(prompt_of(R"({"a": 1e5, "b": "x"})"), prompt_of(R"("{\"a\": 1e5, \"b\": \"x\"}")"));
}

// BC-51, inside the arguments string.
TEST(ParseMessages, DeepArgumentsAreRefused) {
  const std::string deep(1000, '[');
  EXPECT_THAT(
      message_error(
          R"([{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":")" +
          deep + "\"}}]}]"),
      HasSubstr("nesting too deep"));
}

TEST(ParseMessages, ReasoningComesUnderTwoNames) {
  for (const char* text : {R"([{"role":"assistant","reasoning_content":"r"}])",
                           R"([{"role":"assistant","reasoning":"r"}])",
                           R"([{"role":"assistant","reasoning_content":null,"reasoning":"r"}])"}) {
    EXPECT_EQ(parse_messages(json(text)).value()[0].reasoning, "r") << text;
  }
}

TEST(ParseMessages, InternalFieldsNeedPermission) {
  EXPECT_EQ(parse_messages(json(R"([{"role":"developer","content":"d"}])")).value()[0].role,
            Role::kSystem);
  EXPECT_THAT(message_error(R"([{"role":"user","content":"q","task":"query"}])"),
              StartsWith("messages[0].task"));
  EXPECT_THAT(message_error(R"([{"role":"user","content":"q","task":"x"}])", {.internal = true}),
              HasSubstr("'x'"));
  const auto parsed = parse_messages(
      json(R"([{"role":"developer","content":"d","task":"domain"}])"), {.internal = true});
  EXPECT_EQ(parsed.value()[0].role, Role::kDeveloper);
  EXPECT_EQ(parsed.value()[0].task, Task::kDomain);
}

TEST(ParseResponseFormat, TakesTheInnerSchema) {
  const auto parsed = [](const char* text) { return parse_response_format(json(text)); };
  EXPECT_EQ(parsed("null").value(), std::nullopt);
  EXPECT_EQ(parsed(R"({"type":"text"})").value(), std::nullopt);
  EXPECT_EQ(parsed(R"({"type":"json_object"})").value(), R"({"type": "object"})");
  EXPECT_EQ(
      parsed(
          R"({"type":"json_schema","json_schema":{"name":"n","schema":{"type":"array","x":1.50}}})")
          .value(),
      R"({"type": "array", "x": 1.50})");
  EXPECT_THAT(parsed(R"({"type":"json_schema"})").error().message, HasSubstr("json_schema.schema"));
  EXPECT_THAT(parsed(R"({"type":"xml"})").error().message, HasSubstr("'xml'"));
  EXPECT_FALSE(parsed("[]").has_value());
}

}  // namespace
}  // namespace ds4
