#include "tokenizer/pretokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/tokenizer/vocabs.h"

namespace ds4 {
namespace {

using Pieces = std::vector<std::string>;

Pieces split(std::string_view text) {
  static const auto made = PreTokenizer::create();
  EXPECT_TRUE(made.has_value());
  Pieces pieces;
  made->for_each_piece(text, [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

TEST(PreTokenizer, SplitsAllKnownCases) {
  for (const auto& line : test::read_json_lines("tokenizer/pretokenizer_cases.jsonl", 375)) {
    const std::string text = line.at("text");
    EXPECT_EQ(split(text), line.at("pieces").get<Pieces>()) << text;
  }
}

TEST(PreTokenizer, GluesSpacesOnlyWhereTheFormatDoes) {
  EXPECT_EQ(split("x   1"), (Pieces{"x", "   ", "1"}));
  EXPECT_EQ(split("  中"), (Pieces{"  ", "中"}));
  EXPECT_EQ(split("a  \n  b"), (Pieces{"a", "  \n", " ", " b"}));
  EXPECT_EQ(split("!\n\n x"), (Pieces{"!\n\n", " x"}));
  EXPECT_EQ(split("foo~bar ~~~ ~x"), (Pieces{"foo", "~bar", " ~~~", " ~", "x"}));
  EXPECT_EQ(split("don't"), (Pieces{"don", "'t"}));
}

// U+180E, U+200B and U+FEFF look blank but are format characters; U+0085 is white space. PCRE2's
// own \s takes the first and would split the runs elsewhere.
TEST(PreTokenizer, WhiteSpaceIsTheUnicodeProperty) {
  EXPECT_EQ(split("1\u180E\u180E2"), (Pieces{"1", "\u180E\u180E", "2"}));
  EXPECT_EQ(split("\u180E\u3000\u3000x"), (Pieces{"\u180E", "\u3000", "\u3000x"}));
  EXPECT_EQ(split("\u0085\u0085x"), (Pieces{"\u0085", "\u0085x"}));
}

TEST(PreTokenizer, EmptyTextHasNoPieces) { EXPECT_EQ(split(""), Pieces{}); }

// A limit on steps or stack, or a quadratic walk, would show here as an abort or a timeout.
TEST(PreTokenizer, RunsOfMegabytesAreOnePiece) {
  constexpr size_t kRun = 1'000'000;
  for (const char c : {'a', '!', '\n', '\x01'}) {
    EXPECT_EQ(split(std::string(kRun, c)).size(), 1u) << int{c};
  }
  EXPECT_EQ(split(std::string(kRun, ' ') + "x"), (Pieces{std::string(kRun - 1, ' '), " x"}));
  EXPECT_EQ(split(std::string(kRun, '7')).size(), (kRun + 2) / 3);
  std::string alternating;
  for (size_t i = 0; i < kRun; ++i) alternating += " \n";
  EXPECT_EQ(split(alternating).size(), 1u);
}

}  // namespace
}  // namespace ds4
