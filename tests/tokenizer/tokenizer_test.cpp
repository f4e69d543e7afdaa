#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/tokenizer/vocabs.h"
#include "tokenizer/utf8.h"

namespace ds4 {
namespace {

using Tokens = std::vector<Token>;

class BothVocabs : public testing::TestWithParam<const char*> {
 protected:
  const Tokenizer& tokenizer() const {
    return std::string_view(GetParam()) == "v4" ? test::v4_tokenizer() : test::nano_tokenizer();
  }
};
INSTANTIATE_TEST_SUITE_P(, BothVocabs, testing::Values("v4", "nano"));

// 557 strings in 29 categories with the ids of the official tokenizer. This is also BC-01's golden
// file: digits split one by one, or any other deviation from the splitting, shows as another id.
TEST(V4Encoding, EqualsTheReferenceInBothModes) {
  const Tokenizer& v4 = test::v4_tokenizer();
  std::map<std::string, int> n_by_category;
  for (const auto& line : test::read_json_lines("tokenizer/reference_encodings.jsonl", 557)) {
    const std::string text = line.at("text");
    const Tokens ids = line.at("ids").get<Tokens>();
    EXPECT_EQ(v4.encode_text(text), ids) << text;
    EXPECT_EQ(v4.encode_rendered(text),
              line.contains("ids_special") ? line["ids_special"].get<Tokens>() : ids)
        << text;
    EXPECT_EQ(v4.decode(ids), text);
    ++n_by_category[line.at("cat")];
  }
  EXPECT_EQ(n_by_category.size(), 29u);
}

TEST(V4Encoding, ByteAtATimeStreamingReproducesTheText) {
  const Tokenizer& v4 = test::v4_tokenizer();
  for (const auto& line : test::read_json_lines("tokenizer/reference_encodings.jsonl", 557)) {
    Utf8Stream stream;
    std::string out;
    for (const char byte : v4.decode(line.at("ids").get<Tokens>())) {
      out += stream.push(std::string_view(&byte, 1));
      ASSERT_FALSE(utf8_repair(out).has_value());
    }
    EXPECT_EQ(out + stream.flush(), line.at("text").get<std::string>());
  }
}

TEST(V4Encoding, KnownExamples) {
  const Tokenizer& v4 = test::v4_tokenizer();
  EXPECT_EQ(v4.encode_text("Hello, world!"), (Tokens{19923, 14, 2058, 3}));
  EXPECT_EQ(v4.encode_text("你好世界 123456"), (Tokens{30594, 3427, 223, 6895, 18009}));
  EXPECT_EQ(v4.encode_text("    int x = 3;"), (Tokens{361, 688, 1527, 438, 223, 21, 29}));
  EXPECT_EQ(v4.encode_text("\U0001F600"), (Tokens{28927, 225}));
  EXPECT_EQ(v4.encode_text("\xFF"), Tokens{2808});
  EXPECT_EQ(v4.encode_text(""), Tokens{});
  EXPECT_EQ(v4.encode_rendered(""), Tokens{});
}

// BC-01: an identifier with digits must come back as it went in, cut in groups of three.
TEST(V4Encoding, DigitsAreGroupedNotSplitOneByOne) {
  const Tokenizer& v4 = test::v4_tokenizer();
  const auto pieces = [&](const char* text) {
    std::vector<std::string> out;
    for (const Token token : v4.encode_text(text)) out.emplace_back(v4.bytes_of(token));
    return out;
  };
  EXPECT_EQ(pieces("rfid501.go"), (std::vector<std::string>{"rf", "id", "501", ".go"}));
  EXPECT_EQ(pieces("1234567"), (std::vector<std::string>{"123", "456", "7"}));
  for (const char* text : {"v2026.08.26", "x=0x1F00", "١٢٣٤", "第12345号"}) {
    EXPECT_EQ(v4.decode(v4.encode_text(text)), text);
  }
}

// usage.prompt_tokens of the hosted API for BOS, user, text, assistant, </think>.
TEST(V4Encoding, PromptLengthsEqualTheHostedApi) {
  const Tokenizer& v4 = test::v4_tokenizer();
  const std::pair<const char*, size_t> kCounts[] = {
      {"Rispondi in italiano con una frase: chi era Ada Lovelace?", 21},
      {"Answer with only the number: 2048 divided by 128 is", 18},
      {"Complete the C statement with the next exact token only:\nreturn snprintf(buf, "
       "sizeof(buf), "
       "\"%d\", value",
       27},
  };
  for (const auto& [text, n] : kCounts) {
    const std::vector<Segment> prompt = {Segment::scaffold("<｜begin▁of▁sentence｜><｜User｜>"),
                                         Segment::content(text),
                                         Segment::scaffold("<｜Assistant｜></think>")};
    EXPECT_EQ(v4.encode_segments(prompt).size(), n) << text;
  }
}

// Every id of a vocabulary decodes to something, and every byte has a token (BC-10: no Ġ, no Ċ).
TEST_P(BothVocabs, EveryTokenHasBytesAndEveryByteAToken) {
  for (Token token = 0; token < tokenizer().size(); ++token) {
    ASSERT_FALSE(tokenizer().bytes_of(token).empty()) << token;
    ASSERT_EQ(tokenizer().find(tokenizer().spelling(token)), token);
  }
  for (int byte = 0; byte < 256; ++byte) {
    const auto token = tokenizer().find(byte_stand_in(static_cast<uint8_t>(byte)));
    ASSERT_TRUE(token.has_value());
    EXPECT_EQ(tokenizer().bytes_of(*token), std::string(1, static_cast<char>(byte)));
  }
  for (const Token outside : {-1, static_cast<Token>(tokenizer().size())}) {
    EXPECT_EQ(tokenizer().bytes_of(outside), "");
    EXPECT_EQ(tokenizer().spelling(outside), "");
  }
}

// BC-10's property: 100,000 random byte strings, decoded again to the same text (invalid bytes as
// U+FFFD), without an added token. Short alphabets make the random bytes meet merges and
// characters.
TEST(V4Encoding, RandomBytesRoundTrip) {
  const Tokenizer& v4 = test::v4_tokenizer();
  std::mt19937 random(42);
  const std::string_view kParts[] = {
      "a",    " ",    "\n", "é", "中", "7", "<", "｜", "\xF0\x9F\x98\x80",
      "\xE2", "\x80", "\0", "’", "ing"};
  for (int i = 0; i < 100'000; ++i) {
    std::string text;
    const int n = static_cast<int>(random() % 24);
    for (int k = 0; k < n; ++k) {
      if (random() % 3 == 0) {
        text += static_cast<char>(random());
      } else {
        text += kParts[random() % std::size(kParts)];
      }
    }
    const Tokens tokens = v4.encode_text(text);
    ASSERT_EQ(v4.decode(tokens), utf8_repair(text).value_or(text));
    for (const Token token : tokens) ASSERT_FALSE(v4.is_control(token));
  }
}

TEST_P(BothVocabs, AnyTextRoundTrips) {
  EXPECT_TRUE(rc::check([this](const std::string& text) {
    const std::string expected = utf8_repair(text).value_or(text);
    RC_ASSERT(tokenizer().decode(tokenizer().encode_text(text)) == expected);
    RC_ASSERT(tokenizer().decode(tokenizer().encode_rendered(text)) == expected);
  }));
}

TEST_P(BothVocabs, NulBytesAreOrdinaryText) {
  const std::string text("a\0b\0\0<think>", 12);
  EXPECT_EQ(tokenizer().decode(tokenizer().encode_text(text)), text);
}

// The tokens of a repeated piece are copied from its first occurrence; the copy must not change
// them.
TEST_P(BothVocabs, RepeatedWordsEncodeAsTheFirst) {
  const std::string word = " lanterns,";
  const Tokens once = tokenizer().encode_text(word);
  std::string text;
  for (int i = 0; i < 5000; ++i) text += word;
  const Tokens tokens = tokenizer().encode_text(text);
  ASSERT_EQ(tokens.size(), once.size() * 5000);
  for (size_t i = 0; i < tokens.size(); ++i) ASSERT_EQ(tokens[i], once[i % once.size()]);
}

// A quadratic merge loop would take minutes here, a recursive pattern the stack.
TEST_P(BothVocabs, MegabytesWithoutABreakComplete) {
  std::mt19937 random(1);
  std::string letters;
  for (int i = 0; i < 1'000'000; ++i) letters += static_cast<char>('a' + random() % 26);
  const auto cjk = [] {
    std::string text;
    for (int i = 0; i < 350'000; ++i) text += "的";
    return text;
  }();
  for (const std::string& text :
       {letters, cjk, std::string(1 << 20, 'a'), std::string(1 << 20, ' '),
        std::string(1 << 20, '\n'), std::string(1 << 20, '!'), std::string(1 << 20, '\0'),
        std::string(1 << 20, '\x80')}) {
    const std::string expected = utf8_repair(text).value_or(text);
    EXPECT_EQ(tokenizer().decode(tokenizer().encode_text(text)), expected);
  }
}

TEST_P(BothVocabs, ThreadsShareOneTokenizer) {
  const std::string text = "The fox said 12345 times: «où est la lanterne?» 你好\n\n";
  const Tokens expected = tokenizer().encode_text(text);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 200; ++k) ASSERT_EQ(tokenizer().encode_text(text), expected);
    });
  }
}

}  // namespace
}  // namespace ds4
