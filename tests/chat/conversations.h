#pragma once
// Short ways to build conversations in tests. `B`, `E`, `U`, `A` are the markers of the format.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "chat/conversation.h"
#include "chat/json_text.h"
#include "chat/parse_messages.h"
#include "chat/render.h"

namespace ds4::test {

inline const std::string B(spelling::kBos);
inline const std::string E(spelling::kEos);
inline const std::string U(spelling::kUser);
inline const std::string A(spelling::kAssistant);

inline constexpr const char* kBashTool =
    R"([{"type":"function","function":{"name":"bash","parameters":{"type":"object"}}}])";

inline Message message(Role role, std::string content, std::string reasoning = {}) {
  Message made;
  made.role = role;
  made.content = std::move(content);
  made.reasoning = std::move(reasoning);
  return made;
}

inline nlohmann::ordered_json json(std::string_view text) {
  auto parsed = parse_json(text);
  EXPECT_TRUE(parsed.has_value()) << text << ": " << parsed.error().message;
  return parsed.value_or(nullptr);
}

// The conversation of an API request given as JSON texts.
inline Conversation conversation(std::string_view messages, std::string_view tools = "null",
                                 MessageOptions options = {}) {
  Conversation made;
  auto parsed = parse_messages(json(messages), options);
  EXPECT_TRUE(parsed.has_value()) << messages << ": " << parsed.error().message;
  if (parsed) made.messages = std::move(*parsed);
  auto parsed_tools = parse_tools(json(tools));
  EXPECT_TRUE(parsed_tools.has_value()) << parsed_tools.error().message;
  if (parsed_tools) made.tools = std::move(*parsed_tools);
  return made;
}

inline std::string prompt(const Conversation& made, const RenderOptions& options = {}) {
  const auto segments = render(made, options);
  EXPECT_TRUE(segments.has_value()) << segments.error().message;
  return segments ? to_text(*segments) : "";
}

inline int64_t count(std::string_view text, std::string_view part) {
  int64_t n = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace ds4::test
