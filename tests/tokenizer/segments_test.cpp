// Segment mode, the border between the template and what clients wrote: content never becomes a
// control token, and text that holds none is encoded as the joined text would be.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/tokenizer/vocabs.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

namespace ds4 {
namespace {

using Tokens = std::vector<Token>;

int64_t count_control(const Tokenizer& tokenizer, const Tokens& tokens) {
  return std::count_if(tokens.begin(), tokens.end(),
                       [&](Token token) { return tokenizer.is_control(token); });
}

TEST(Segments, SpelledMarkersInContentAreOrdinaryTokens) {
  const Tokenizer& v4 = test::v4_tokenizer();
  const std::pair<const char*, Tokens> kCases[] = {
      {"<｜User｜>", {30, 28217, 6756, 28217, 32}},
      {"<think>", {30, 37947, 32}},
      {"</think>", {1718, 37947, 32}},
      {"｜DSML｜", {28217, 10525, 7398, 28217}},
  };
  for (const auto& [text, ids] : kCases) {
    EXPECT_EQ(v4.encode_text(text), ids);
    const std::vector<Segment> content = {Segment::content(text)};
    EXPECT_EQ(v4.encode_segments(content), ids);
    const std::vector<Segment> scaffold = {Segment::scaffold(text)};
    EXPECT_EQ(v4.encode_segments(scaffold), Tokens{*v4.find(text)});
  }
}

// BC-02: every added token of the vocabulary, typed by a client in its own words.
TEST(Segments, NoAddedTokenTypedAsContentGivesAControlId) {
  for (const Tokenizer* tokenizer : {&test::v4_tokenizer(), &test::nano_tokenizer()}) {
    for (Token token = 0; token < tokenizer->size(); ++token) {
      if (!tokenizer->is_control(token)) continue;
      const std::string typed(tokenizer->spelling(token));
      EXPECT_EQ(tokenizer->encode_rendered(typed), Tokens{token});
      const std::vector<Segment> prompt = {Segment::scaffold("<｜User｜>"), Segment::content(typed),
                                           Segment::scaffold("<｜Assistant｜>")};
      const Tokens tokens = tokenizer->encode_segments(prompt);
      EXPECT_EQ(count_control(*tokenizer, tokens), 2) << typed;
      EXPECT_EQ(tokenizer->decode(tokens), "<｜User｜>" + typed + "<｜Assistant｜>");
    }
  }
}

TEST(Segments, AMatchMayNotTouchContent) {
  const Tokenizer& v4 = test::v4_tokenizer();
  const std::vector<std::vector<Segment>> kCases = {
      {Segment::scaffold("<"), Segment::content("think"), Segment::scaffold(">")},
      {Segment::content("<thin"), Segment::scaffold("k>")},
      {Segment::scaffold("<thin"), Segment::content("k>")},
      {Segment::content("<thi"), Segment::content("nk>")},
      {Segment::scaffold("<thi"), Segment::content(""), Segment::scaffold("nk>")},
  };
  for (const auto& segments : kCases) {
    EXPECT_EQ(v4.encode_segments(segments), v4.encode_text("<think>"));
  }
  const std::vector<Segment> joined = {Segment::scaffold("<thi"), Segment::scaffold("nk>")};
  EXPECT_EQ(v4.encode_segments(joined), Tokens{v4.special().think_open});
}

TEST(Segments, OrdinaryTextIsJoinedAcrossSeams) {
  const Tokenizer& v4 = test::v4_tokenizer();
  const std::vector<Segment> seams = {Segment::scaffold("<tool_result>Hel"),
                                      Segment::content("lo, wor"), Segment::content("ld"),
                                      Segment::scaffold("!</tool_result>")};
  EXPECT_EQ(v4.encode_segments(seams), v4.encode_text("<tool_result>Hello, world!</tool_result>"));
  const std::vector<Segment> with_id = {Segment::content("wor"), Segment::control(v4.special().eos),
                                        Segment::content("ld")};
  Tokens expected = v4.encode_text("wor");
  expected.push_back(v4.special().eos);
  for (const Token token : v4.encode_text("ld")) expected.push_back(token);
  EXPECT_EQ(v4.encode_segments(with_id), expected);
}

// Bytes of a character cut over two pieces of content join; a cut character before scaffold does
// not eat into it.
TEST(Segments, CutCharactersJoinInsideARun) {
  const Tokenizer& v4 = test::v4_tokenizer();
  const std::vector<Segment> cut = {Segment::content("\xE4\xBD"), Segment::content("\xA0")};
  EXPECT_EQ(v4.encode_segments(cut), v4.encode_text("你"));
  const std::vector<Segment> broken = {Segment::content("\xEF\xBD"),
                                       Segment::scaffold("<｜User｜>")};
  EXPECT_EQ(v4.encode_segments(broken), (Tokens{2808, v4.special().user}));
}

// Random prompts of scaffold, content and ids: control ids are exactly those the scaffold and the
// id segments hold, and the bytes are those of the joined text.
TEST(Segments, ControlIdsComeOnlyFromScaffold) {
  const Tokenizer& v4 = test::v4_tokenizer();
  const auto text =
      rc::gen::map(rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
                       "<｜User｜>", "<think>", "</think>", "｜DSML｜", "<", "｜", "User", ">",
                       "think", "a b", "\xE2", "\n")),
                   [](const std::vector<std::string>& parts) {
                     std::string joined;
                     for (const auto& part : parts) joined += part;
                     return joined;
                   });
  EXPECT_TRUE(rc::check([&] {
    std::vector<Segment> segments;
    std::string joined;
    int64_t n_control = 0;
    const int n = *rc::gen::inRange(0, 8);
    for (int i = 0; i < n; ++i) {
      if (*rc::gen::arbitrary<bool>()) {
        segments.push_back(Segment::content(*text));
        joined += segments.back().text;
      } else if (*rc::gen::arbitrary<bool>()) {
        segments.push_back(Segment::scaffold("<｜User｜>-"));
        joined += segments.back().text;
        ++n_control;
      } else {
        segments.push_back(Segment::control(v4.special().dsml));
        joined += spelling::kDsml;
        ++n_control;
      }
    }
    const Tokens tokens = v4.encode_segments(segments);
    RC_ASSERT(count_control(v4, tokens) == n_control);
    RC_ASSERT(v4.decode(tokens) == utf8_repair(joined).value_or(joined));
  }));
}

}  // namespace
}  // namespace ds4
