#pragma once
// The tags of tool-call markup: <｜DSML｜tool_calls>, <｜DSML｜invoke …>, <｜DSML｜parameter …> and
// their closers, in all the spellings that sampled models produce.
//
// Read: one or two bars on either side of DSML, at least one in total (U+FF5C, '|', U+2016), spaces
// around the bars, a bar and spaces before the '>' of a closer, attributes in any order, quoted
// with ", ' or U+201C/U+201D. Without DSML it is a tag of the plain kind (<tool_calls>), and then
// has no spaces and bars in front of its name. There are no escapes: the value of an attribute ends
// at its quote, and cannot hold a newline.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ds4::dsml {

// A '<' that no '>' closes within so many bytes starts no tag. Bounds the work a '<' can cause.
inline constexpr int64_t kTagBytesMax = 1024;

enum class TagName { kBlock, kInvoke, kParameter };

struct Tag {
  TagName name = TagName::kBlock;
  bool closes = false;
  bool plain = false;
  int64_t begin = 0, end = 0;  // of the text: '<', and behind '>'
  // Attributes of invokes and parameters; absent too when the attributes cannot be read.
  std::optional<std::string> name_value;
  std::optional<std::string> string_value;

  bool opens(TagName wanted) const { return !closes && name == wanted; }
  bool ends(TagName wanted) const { return closes && name == wanted; }
};

enum class TagMatch {
  kNo,   // text
  kYes,  // a tag
  kCut,  // the text ends inside what may become a tag; of `tag` only begin and `closes` are set,
         // and `name` and `plain` where `named`
};

struct TagStep {
  TagMatch match = TagMatch::kNo;
  Tag tag;
  bool named = false;           // kCut: ends behind a name
  bool may_open_block = false;  // kCut: has the word DSML and may become the opener of a block
};

// Looks at the tag that starts at text[begin], which must be '<'.
TagStep read_tag(std::string_view text, int64_t begin);

bool is_blank(char c);

// The first place at or behind `from` that is not white space; the text's size when there is none.
int64_t skip_blanks(std::string_view text, int64_t from);

}  // namespace ds4::dsml
