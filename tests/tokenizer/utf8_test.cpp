#include "tokenizer/utf8.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>

namespace ds4 {
namespace {

const std::string kBad(kReplacementChar);

std::string repaired(std::string_view text) {
  return utf8_repair(text).value_or(std::string(text));
}

TEST(Utf8Repair, LeavesValidTextAlone) {
  for (const char* text : {"", "abc", "é", "\xE2\x80\x94", "\xF0\x9F\x98\x80", "\xED\x9F\xBF",
                           "\xEE\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_FALSE(utf8_repair(text).has_value()) << text;
  }
  EXPECT_FALSE(utf8_repair(std::string_view("a\0b", 3)).has_value());
}

// One U+FFFD for each maximal subpart, the examples of the Unicode Standard's tables 3-8 to 3-11.
TEST(Utf8Repair, ReplacesEachMaximalInvalidSubsequenceOnce) {
  EXPECT_EQ(repaired("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            kBad + kBad + kBad + kBad + kBad + kBad + kBad + kBad + "A");
  EXPECT_EQ(repaired("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            kBad + kBad + kBad + kBad + kBad + kBad + kBad + kBad + "A");
  EXPECT_EQ(repaired("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            kBad + kBad + kBad + kBad + kBad + "A" + kBad + kBad + "B");
  EXPECT_EQ(repaired("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), kBad + kBad + kBad + kBad + "A");
  EXPECT_EQ(repaired("ok\xE4\xBD"), "ok" + kBad);
}

// BC-67: characters cut over chunks in every way the report lists.
TEST(Utf8Stream, CharactersSplitOverTokensComeOutWhole) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("ok \xF0\x9F"), "ok ");
  EXPECT_EQ(stream.push("\x98\x80 d"), "\xF0\x9F\x98\x80 d");
  EXPECT_EQ(stream.push("\xC3"), "");
  EXPECT_EQ(stream.push("\x96 \xE5\x8C"), "\xC3\x96 ");
  EXPECT_EQ(stream.push("\x97"), "\xE5\x8C\x97");
  EXPECT_EQ(stream.push("\xFF"), kBad);
  EXPECT_EQ(stream.push("\xE5"), "");
  EXPECT_EQ(stream.flush(), kBad);
  EXPECT_EQ(stream.flush(), "");
}

TEST(Utf8Stream, AnyChunkingOfAnyBytesGivesTheRepairedText) {
  EXPECT_TRUE(rc::check([](const std::string& tail) {
    // Plain random bytes hardly ever hold a character of several bytes, so some are mixed in.
    const auto parts = *rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
        "é", "\xE2\x80", "\xF0\x9F\x98\x80", "\xF0\x9F", "\x80", "a"));
    std::string bytes;
    for (const auto& part : parts) bytes += part;
    bytes += tail;
    Utf8Stream stream;
    std::string out;
    for (size_t pos = 0; pos < bytes.size();) {
      const size_t n = *rc::gen::inRange<size_t>(1, 5);
      out += stream.push(std::string_view(bytes).substr(pos, n));
      RC_ASSERT(stream.pending_bytes() <= 3);
      RC_ASSERT(!utf8_repair(out).has_value());
      pos += n;
    }
    out += stream.flush();
    RC_ASSERT(out == repaired(bytes));
  }));
}

}  // namespace
}  // namespace ds4
