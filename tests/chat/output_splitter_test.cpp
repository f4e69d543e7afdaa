#include "chat/output_splitter.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/tokenizer/vocabs.h"

namespace ds4 {
namespace {

struct Split {
  std::string reasoning;
  std::string content;
  bool operator==(const Split&) const = default;
};

void add(Split& split, const std::vector<OutputChunk>& chunks) {
  for (const OutputChunk& chunk : chunks) {
    EXPECT_FALSE(chunk.text.empty());
    EXPECT_FALSE(utf8_repair(chunk.text).has_value());
    (chunk.channel == Channel::kReasoning ? split.reasoning : split.content) += chunk.text;
  }
}

Split split_tokens(const std::vector<Token>& tokens, ThinkingMode mode) {
  const Tokenizer& v4 = test::v4_tokenizer();
  OutputSplitter splitter(v4.special(), mode);
  Split split;
  for (const Token token : tokens) add(split, splitter.push(token, v4.bytes_of(token)));
  add(split, splitter.finish());
  return split;
}

Split split_text(std::string_view text, ThinkingMode mode) {
  return split_tokens(test::v4_tokenizer().encode_rendered(text), mode);
}

// The known parses that need no tool-call parser: no markup in them, or tools disabled.
TEST(OutputSplitter, EqualsTheKnownParsesWithoutToolCalls) {
  int n = 0;
  for (const auto& line : test::read_json_lines("chat/dsml_cases.jsonl", 81)) {
    const std::string text = line.at("text");
    const bool no_markup =
        text.find("DSML") == std::string::npos && text.find("tool_calls") == std::string::npos;
    if (!no_markup && line.value("tools_enabled", true)) continue;
    ++n;
    const auto mode = line.at("mode") == "chat" ? ThinkingMode::kChat : ThinkingMode::kThinking;
    const Split expected{line["expected"].at("reasoning"), line["expected"].at("content")};
    EXPECT_EQ(split_text(text, mode), expected) << line.at("id");
  }
  EXPECT_EQ(n, 15);
}

TEST(OutputSplitter, MarkersCountOnlyWhereTheFormatHasThem) {
  using enum ThinkingMode;
  EXPECT_EQ(split_text(" \n<think>a<think>b</think>c", kThinking), (Split{"a<think>b", "c"}));
  EXPECT_EQ(split_text("a</think>\n</think></think>b</think>c", kThinking),
            (Split{"a", "b</think>c"}));
  EXPECT_EQ(split_text("a</think><think>b", kThinking), (Split{"a", "<think>b"}));
  EXPECT_EQ(split_text("</think> <think>a</think>b<think>c", kChat), (Split{"a", "b<think>c"}));
  EXPECT_EQ(split_text("<think><think>a", kChat), (Split{"<think>a", ""}));
  EXPECT_EQ(split_text(" \n </think>\n\n", kThinking), (Split{" \n ", "\n\n"}));
  EXPECT_EQ(split_text("", kThinking), Split{});
}

// Spelled out in ordinary tokens a marker is text: a model that explains the format must be able
// to.
TEST(OutputSplitter, SpelledMarkersAreText) {
  const auto tokens = test::v4_tokenizer().encode_text("see </think> and <think>");
  EXPECT_EQ(split_tokens(tokens, ThinkingMode::kThinking), (Split{"see </think> and <think>", ""}));
}

TEST(OutputSplitter, TokensThatEndATurnHaveNoText) {
  EXPECT_EQ(split_text("a<｜User｜><｜Assistant｜><｜begin▁of▁sentence｜><｜end▁of▁sentence｜>",
                       ThinkingMode::kChat),
            (Split{"", "a"}));
}

// BC-67 and the end of a channel inside a character: the lost character belongs to that channel.
TEST(OutputSplitter, CutCharactersStayInTheirChannel) {
  const Tokenizer& v4 = test::v4_tokenizer();
  const Token half = v4.encode_text("\U0001F600")[0];
  EXPECT_EQ(split_tokens({half, v4.special().think_close, half}, ThinkingMode::kThinking),
            (Split{"\uFFFD", "\uFFFD"}));
  // Half a character is visible text, so the marker after it came too late.
  EXPECT_EQ(split_tokens({half, v4.special().think_close}, ThinkingMode::kChat),
            (Split{"", "\uFFFD</think>"}));
  EXPECT_EQ(split_text("\U0001F600</think>\U0001F600", ThinkingMode::kThinking),
            (Split{"\U0001F600", "\U0001F600"}));
}

// The streamed text is always a prefix of the final text, and a token never waits without a reason.
TEST(OutputSplitter, EmitsEachTokenAtOnceAfterTheFirstVisibleText) {
  const Tokenizer& v4 = test::v4_tokenizer();
  OutputSplitter splitter(v4.special(), ThinkingMode::kChat);
  EXPECT_TRUE(splitter.push(v4.encode_text("\n")[0], "\n").empty());
  for (const Token token : v4.encode_text("Hello, world! \n\n")) {
    EXPECT_FALSE(splitter.push(token, v4.bytes_of(token)).empty());
  }
  EXPECT_TRUE(splitter.finish().empty());
}

// Whatever is sampled, no byte of it is lost except markers with a meaning and white space before
// them.
TEST(OutputSplitter, NothingIsLostFromRandomTokens) {
  const Tokenizer& v4 = test::v4_tokenizer();
  EXPECT_TRUE(rc::check([&] {
    const auto tokens = *rc::gen::container<std::vector<Token>>(rc::gen::weightedOneOf<Token>(
        {{4, rc::gen::inRange<Token>(3, 128000)},
         {1, rc::gen::element(v4.special().think_open, v4.special().think_close, v4.special().dsml,
                              *v4.find("Ċ"))}}));
    const auto mode = *rc::gen::element(ThinkingMode::kChat, ThinkingMode::kThinking);
    const Split split = split_tokens(tokens, mode);
    std::string visible;
    for (const Token token : tokens) {
      if (token != v4.special().think_open && token != v4.special().think_close)
        visible += v4.bytes_of(token);
    }
    const auto letters = [](std::string text) {
      for (const std::string_view marker : {spelling::kThinkOpen, spelling::kThinkClose}) {
        for (size_t at = text.find(marker); at != std::string::npos; at = text.find(marker)) {
          text.erase(at, marker.size());
        }
      }
      std::erase_if(text, [](unsigned char c) { return c <= ' ' || c >= 0x80; });
      return text;
    };
    RC_ASSERT(letters(split.reasoning + split.content) == letters(visible));
  }));
}

}  // namespace
}  // namespace ds4
