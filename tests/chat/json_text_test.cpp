#include "chat/json_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ds4 {
namespace {

using testing::HasSubstr;

std::string rewritten(std::string_view text) {
  const auto value = parse_json(text);
  EXPECT_TRUE(value.has_value()) << text << ": " << value.error().message;
  return value ? write_json(*value) : "";
}

TEST(JsonText, IsWrittenAsPythonWritesIt) {
  EXPECT_EQ(rewritten(R"({"b":1,"a":[true,null,"é→日本"],"o":{}, "l":[]})"),
            R"({"b": 1, "a": [true, null, "é→日本"], "o": {}, "l": []})");
  EXPECT_EQ(rewritten(R"("\u00e9\ud83d\ude00 \" \\ \/ \b\f\n\r\t\u0001")"),
            "\"é😀 \\\" \\\\ / \\b\\f\\n\\r\\t\\u0001\"");
}

TEST(JsonText, NumbersKeepTheTextTheyCameWith) {
  const char* kNumbers =
      "[1.0, 1e5, 1E+5, 1.50, 0.1, -0.0, 123456789012345678901234567890, 1e-7, -3, "
      "18446744073709551615, 1e16, 5e-324, 0.30000000000000004]";
  EXPECT_EQ(rewritten(kNumbers), kNumbers);
  const auto numbers = parse_json(kNumbers);
  EXPECT_EQ(json_number((*numbers)[1]), 1e5);
  EXPECT_EQ(json_number((*numbers)[3]), 1.5);
  EXPECT_EQ(json_number((*numbers)[8]), -3);
  EXPECT_EQ(json_number(nlohmann::ordered_json("1")), std::nullopt);
}

TEST(JsonText, OptionsOfARequestAreOrdinaryNumbers) {
  const auto request = parse_request_json(R"({"temperature": 1e0, "tools": [{"minimum": 1e0}]})");
  ASSERT_TRUE(request.has_value());
  EXPECT_TRUE((*request)["temperature"].is_number());
  EXPECT_EQ(write_json((*request)["tools"]), R"([{"minimum": 1e0}])");
}

// BC-52: the last of a repeated key counts, in the place of the first, at any depth.
TEST(JsonText, LastOfARepeatedKeyCounts) {
  EXPECT_EQ(rewritten(R"({"a":1,"b":2,"a":{"x":1,"x":[3]},"b":4})"),
            R"({"a": {"x": [3]}, "b": 4})");
}

TEST(JsonText, ErrorsSayWhere) {
  EXPECT_THAT(parse_json("{\"a\": 1,}").error().message, HasSubstr("byte 9"));
  for (const char* text : {"", "{", "[1, 2", "nul", "NaN", "1e999", "\"\xFF\"", "\"\\ud800\"",
                           "{} {}", "'a'", "{\"a\" 1}", "\"\n\""}) {
    const auto value = parse_json(text);
    ASSERT_FALSE(value.has_value()) << text;
    EXPECT_EQ(value.error().code, ErrorCode::kCorrupt) << text;
  }
  // A NUL ends no text: what is behind it counts.
  for (const std::string_view text : {std::string_view("{}\0 {}", 6), std::string_view("1\0", 2)}) {
    EXPECT_FALSE(parse_json(text).has_value());
    EXPECT_FALSE(parse_request_json(text).has_value());
  }
}

// BC-51: deep nesting is an error, not a stack overflow; unclosed or not.
TEST(JsonText, NestingIsBounded) {
  const std::string at_limit = std::string(kJsonDepthMax, '[') + std::string(kJsonDepthMax, ']');
  EXPECT_EQ(rewritten(at_limit), at_limit);
  for (const std::string& deep : {std::string(100'000, '['), "[" + at_limit + "]"}) {
    EXPECT_EQ(parse_json(deep).error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(parse_json(deep).error().message, HasSubstr("nesting too deep"));
  }
  std::string objects;
  for (int i = 0; i < 1'000'000; ++i) objects += "{\"a\":";
  EXPECT_THAT(parse_json(objects).error().message, HasSubstr("nesting too deep"));
}

// The library's ordered object looks at every member to add one: 200,000 would take minutes.
TEST(JsonText, WideObjectsAreNotQuadratic) {
  std::string wide = "{";
  for (int i = 0; i < 200'000; ++i) wide += "\"key" + std::to_string(i) + "\": 1, ";
  wide += "\"key0\": 2}";
  const auto value = parse_json(wide);
  ASSERT_TRUE(value.has_value());
  EXPECT_EQ(value->size(), 200'000u);
  EXPECT_EQ((*value)["key0"], 2);
}

}  // namespace
}  // namespace ds4
