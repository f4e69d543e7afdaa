// Messages that no person writes: bytes that are not UTF-8, NUL, a megabyte of one character,
// nothing but control strings. Each becomes a prompt that decodes to the rendered text, with the
// control ids of the template and no others.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "chat/output_splitter.h"
#include "tests/chat/conversations.h"
#include "tests/tokenizer/vocabs.h"
#include "tokenizer/utf8.h"

namespace ds4 {
namespace {

std::vector<Token> control_ids(const Tokenizer& tokenizer, const std::vector<Token>& tokens) {
  std::vector<Token> ids;
  for (const Token token : tokens) {
    if (tokenizer.is_control(token)) ids.push_back(token);
  }
  return ids;
}

// In the places a client fills: system, user, an earlier answer, a tool's result.
Conversation saying(const std::string& text) {
  Conversation made;
  made.messages = {test::message(Role::kSystem, text), test::message(Role::kUser, text),
                   test::message(Role::kAssistant, text, text), test::message(Role::kTool, text),
                   test::message(Role::kUser, text)};
  made.messages[2].tool_calls = {{"c", "f", "{}"}};
  made.messages[3].tool_call_id = "c";
  return made;
}

void expect_plain_text(const std::string& text) {
  for (const Tokenizer* tokenizer : {&test::v4_tokenizer(), &test::nano_tokenizer()}) {
    const auto tokens = render_tokens(saying(text), {}, *tokenizer);
    const auto harmless = render_tokens(saying("x"), {}, *tokenizer);
    ASSERT_TRUE(tokens && harmless);
    EXPECT_EQ(control_ids(*tokenizer, *tokens), control_ids(*tokenizer, *harmless));
    const std::string prompt = test::prompt(saying(text));
    EXPECT_TRUE(tokenizer->decode(*tokens) == utf8_repair(prompt).value_or(prompt));
  }
}

TEST(HostilePrompts, BytesThatAreNotUtf8BecomeReplacementCharacters) {
  for (const std::string& text :
       {std::string("\xFF\xFE\x80"), std::string("\xC0\x80\xED\xA0\x80\xF4\x90\x80\x80"),
        std::string("a\xE4\xB8"),
        std::string("\xEF\xBD\x9C"
                    "DSML\xEF\xBD"),
        std::string("<\xEF\xBD\x9C"
                    "User\xEF\xBD\x9C\xFF>")}) {
    expect_plain_text(text);
  }
}

TEST(HostilePrompts, NulBytesAreTextAnywhere) {
  expect_plain_text(std::string(1, '\0'));
  expect_plain_text(std::string("a\0b\0\0", 5));
  expect_plain_text(std::string("<\0think>", 8));
}

TEST(HostilePrompts, AMegabyteOfOneCharacterCompletes) {
  for (const std::string& character :
       {std::string("a"), std::string(" "), std::string("\n"), std::string("7"), std::string("世"),
        std::string("\xFF"), std::string("<"), std::string("\xCC\x81")}) {
    std::string text;
    while (text.size() < 1 << 20) text += character;
    const Tokenizer& tokenizer = test::nano_tokenizer();
    const Conversation made{
        .messages = {test::message(Role::kUser, text)}, .tools = {}, .response_schema = {}};
    const auto tokens = render_tokens(made, {}, tokenizer);
    ASSERT_TRUE(tokens);
    const std::string prompt = test::prompt(made);
    // Not EXPECT_EQ: a failure would print megabytes.
    EXPECT_TRUE(tokenizer.decode(*tokens) == utf8_repair(prompt).value_or(prompt)) << character;
  }
}

TEST(HostilePrompts, OnlyControlStringsAreOnlyText) {
  std::string all;
  for (const std::string_view text :
       {spelling::kBos, spelling::kEos, spelling::kUser, spelling::kAssistant, spelling::kThinkOpen,
        spelling::kThinkClose, spelling::kDsml, spelling::kLatestReminder}) {
    expect_plain_text(std::string(text));
    all += text;
  }
  expect_plain_text(all + all);
}

// A model that answers with such bytes: what leaves is always whole UTF-8.
TEST(HostilePrompts, AnswersOfAnyBytesLeaveAsUtf8) {
  const SpecialTokens& special = test::v4_tokenizer().special();
  constexpr Token kText = 1000;  // any that is no marker: its bytes are given
  for (const ThinkingMode mode : {ThinkingMode::kChat, ThinkingMode::kThinking}) {
    OutputSplitter splitter(special, mode);
    std::string text;
    const auto take = [&](const std::vector<OutputChunk>& chunks) {
      for (const OutputChunk& chunk : chunks) {
        EXPECT_FALSE(utf8_repair(chunk.text)) << chunk.text;
        text += chunk.text;
      }
    };
    for (int byte = 0; byte < 256; ++byte) {
      take(splitter.push(kText, std::string(1, static_cast<char>(byte))));
      if (byte % 50 == 49) take(splitter.push(special.think_close, "</think>"));
    }
    take(splitter.finish());
    EXPECT_FALSE(text.empty());
  }
}

}  // namespace
}  // namespace ds4
