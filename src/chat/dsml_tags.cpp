#include "chat/dsml_tags.h"

#include <array>
#include <utility>

#include "base/check.h"

namespace ds4::dsml {
namespace {

constexpr std::array<std::string_view, 3> kBars = {"\uFF5C", "|", "\u2016"};
constexpr std::string_view kWord = "DSML";
constexpr std::array<std::pair<std::string_view, TagName>, 3> kNames = {
    {{"tool_calls", TagName::kBlock},
     {"invoke", TagName::kInvoke},
     {"parameter", TagName::kParameter}}};

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

// A place in the text that knows when a step failed only because the text ended.
class Cursor {
 public:
  Cursor(std::string_view text, int64_t at) : text_(text), at_(at) {}

  int64_t at() const { return at_; }
  bool cut() const { return cut_; }
  std::string_view rest() const { return text_.substr(at_); }

  // The next byte, or 0 at the end (a NUL in the text matches nothing either).
  char peek() {
    if (at_ < size()) return text_[at_];
    cut_ = true;
    return 0;
  }
  bool take(std::string_view wanted) {
    if (rest().starts_with(wanted)) {
      at_ += static_cast<int64_t>(wanted.size());
      return true;
    }
    if (wanted.starts_with(rest())) cut_ = true;
    return false;
  }
  void skip_spaces() {
    while (at_ < size() && text_[at_] == ' ') ++at_;
  }
  void skip_blanks() { at_ = dsml::skip_blanks(text_, at_); }
  bool skip_behind(char wanted) {
    const size_t found = text_.find(wanted, at_);
    if (found == std::string_view::npos) {
      cut_ = true;
      return false;
    }
    at_ = static_cast<int64_t>(found) + 1;
    return true;
  }

  // Any of several; a cut counts only when none is there.
  template <typename Words>
  bool take_any(const Words& words) {
    const bool was_cut = cut_;
    for (const std::string_view word : words) {
      if (take(word)) {
        cut_ = was_cut;
        return true;
      }
    }
    return false;
  }
  int take_bars() {
    int n = 0;
    skip_spaces();
    while (n < 2 && take_any(kBars)) {
      ++n;
      skip_spaces();
    }
    return n;
  }
  std::string_view take_word() {
    const int64_t begin = at_;
    while (is_word(peek())) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  // What stands before `quotes`, one of which must come in this line; they are taken too.
  template <typename Quotes>
  std::optional<std::string> take_until(const Quotes& quotes) {
    const int64_t begin = at_;
    for (; peek() != '\n' && !cut_; ++at_) {
      const int64_t end = at_;
      if (take_any(quotes)) return std::string(text_.substr(begin, end - begin));
      if (cut_) break;  // in the middle of what may be a quote of several bytes
    }
    return std::nullopt;
  }

 private:
  int64_t size() const { return static_cast<int64_t>(text_.size()); }

  std::string_view text_;
  int64_t at_;
  bool cut_ = false;
};

std::optional<std::string> quoted(Cursor& in) {
  using Quotes = std::array<std::string_view, 2>;
  constexpr std::array<std::string_view, 1> kDouble = {"\""}, kSingle = {"'"};
  constexpr Quotes kCurly = {"\u201C", "\u201D"};
  if (in.take_any(kDouble)) return in.take_until(kDouble);
  if (in.take_any(kSingle)) return in.take_until(kSingle);
  if (in.take_any(kCurly)) return in.take_until(kCurly);
  return std::nullopt;
}

// The attributes up to and with '>'. False when they cannot be read.
bool read_attributes(Cursor& in, Tag& tag) {
  for (;;) {
    in.skip_blanks();
    if (in.take(">")) return true;
    const std::string_view key = in.take_word();
    in.skip_blanks();
    if (key.empty() || !in.take("=")) return false;
    in.skip_blanks();
    auto value = quoted(in);
    if (!value) return false;
    if (key == "name" && !tag.name_value) tag.name_value = std::move(value);
    if (key == "string" && !tag.string_value) tag.string_value = std::move(value);
  }
}

// From behind '<' to behind the name. Nothing for text, or when cut.
std::optional<TagName> read_head(Cursor& in, TagStep& step) {
  Tag& tag = step.tag;
  tag.closes = in.take("/");
  if (in.cut()) return std::nullopt;
  const int64_t start = in.at();
  const int n_before = in.take_bars();
  const bool has_word = in.take(kWord);
  if (!has_word && (in.cut() || in.at() != start)) return std::nullopt;
  if (has_word && in.take_bars() + n_before == 0) return std::nullopt;
  tag.plain = !has_word;
  const std::string_view block = kNames[0].first;
  step.may_open_block =
      has_word && !tag.closes && (block.starts_with(in.rest()) || in.rest().starts_with(block));
  for (const auto& [word, name] : kNames) {
    if (!in.take(word)) continue;
    tag.name = name;
    step.named = true;
    return name;
  }
  return std::nullopt;
}

// From behind the name to behind '>'. False for text, or when cut.
bool read_rest(Cursor& in, Tag& tag) {
  if (tag.closes) {
    in.skip_spaces();
    if (in.take_any(kBars)) in.skip_spaces();
    return in.take(">");
  }
  if (tag.name == TagName::kBlock) {
    in.skip_spaces();
    return in.take(">");
  }
  const char next = in.peek();
  if (next != '>' && !is_blank(next)) return false;
  const Cursor head = in;
  if (read_attributes(in, tag)) return true;
  if (in.cut()) return false;
  // Attributes that cannot be read are none; whoever needs a name will miss it.
  tag.name_value.reset();
  tag.string_value.reset();
  in = head;
  return in.skip_behind('>');
}

}  // namespace

TagStep read_tag(std::string_view text, int64_t begin) {
  const bool bounded = static_cast<int64_t>(text.size()) - begin > kTagBytesMax;
  if (bounded) text = text.substr(0, begin + kTagBytesMax);
  TagStep step;
  step.tag.begin = begin;
  Cursor in(text, begin);
  DS4_DCHECK(in.peek() == '<');
  in.take("<");
  if (read_head(in, step) && read_rest(in, step.tag)) {
    step.match = TagMatch::kYes;
    step.tag.end = in.at();
  } else if (in.cut() && !bounded) {
    step.match = TagMatch::kCut;
  }
  return step;
}

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\v' || c == '\f' || c == '\r';
}

int64_t skip_blanks(std::string_view text, int64_t from) {
  const auto size = static_cast<int64_t>(text.size());
  while (from < size && is_blank(text[from])) ++from;
  return from;
}

}  // namespace ds4::dsml
