#include "eval/extract.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

namespace ds4::eval {
namespace {

constexpr size_t kChoiceReach = 96;
constexpr size_t kIntegerReach = 160;
constexpr std::string_view kWord = "answer";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
char to_upper(char c) { return is_lower(c) ? static_cast<char>(c - 'a' + 'A') : c; }
char to_lower(char c) { return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c; }

// Part of a word: letters, digits, apostrophes, and every byte of a character beyond ASCII.
bool is_word(char c) {
  return is_digit(c) || is_lower(c) || is_upper(c) || c == '\'' || static_cast<signed char>(c) < 0;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// Without what typesetting puts around an answer; dashes and minus signs become ASCII.
std::string plain(std::string_view text) {
  std::string out(text);
  replace_all(out, "{,}", ",");
  for (const std::string_view dash : {"\u2212", "\u2013", "\u2014", "\u2010", "\u2011"}) {
    replace_all(out, dash, "-");
  }
  for (const std::string_view command :
       {"\\boxed", "\\textbf", "\\text", "\\mathrm", "\\mathbf", "\\left", "\\right"}) {
    replace_all(out, command, " ");
  }
  for (char& c : out) {
    if (std::string_view("*_`$\\{}()[]~#\"").find(c) != std::string_view::npos) c = ' ';
  }
  return out;
}

// Where the word stands next before `end`; npos when nowhere. "answers" counts, "unanswered" too.
size_t word_before(std::string_view text, size_t end) {
  const auto same = [](char a, char b) { return to_lower(a) == b; };
  const auto range = text.substr(0, end);
  const auto at = std::find_end(range.begin(), range.end(), kWord.begin(), kWord.end(), same);
  return at == range.end() ? std::string_view::npos : static_cast<size_t>(at - range.begin());
}

std::string_view line_at(std::string_view text, size_t begin) {
  return text.substr(begin, std::min(text.find('\n', begin), text.size()) - begin);
}

// The rest of the line, or the next one with text.
std::string_view rest_or_next_line(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const std::string_view line = line_at(text, begin);
    if (plain(line).find_first_not_of(" \t\r") != std::string::npos) return line;
    begin += line.size() + 1;
  }
  return {};
}

// What follows the colon when `at` is the word of an answer line.
std::optional<std::string_view> value_of_line(std::string_view text, size_t at) {
  const size_t colon = text.find_first_not_of("*_` \t)]", at + kWord.size());
  if (colon == std::string_view::npos || text[colon] != ':') return std::nullopt;
  return rest_or_next_line(text, colon + 1);
}

// The inside of the last \boxed{...}, braces within it matched.
std::optional<std::string_view> boxed(std::string_view text) {
  constexpr std::string_view kBoxed = "\\boxed{";
  const size_t at = text.rfind(kBoxed);
  if (at == std::string_view::npos) return std::nullopt;
  text = text.substr(at + kBoxed.size());
  int depth = 1;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '{' ? 1 : text[i] == '}' ? -1 : 0;
    if (depth == 0) return text.substr(0, i);
  }
  return std::nullopt;
}

// Tries `read` on the answer lines from the last on, the box, and what follows the word. The
// number of words looked at is bounded: a model may repeat itself for its whole budget.
template <typename Read>
auto search(std::string_view text, size_t reach, const Read& read) -> decltype(read(text)) {
  constexpr int kWordsMax = 1000;
  int n = 0;
  for (size_t at = word_before(text, text.size()); at != std::string_view::npos && n < kWordsMax;
       at = word_before(text, at), ++n) {
    const auto value = value_of_line(text, at);
    if (!value) continue;
    if (auto found = read(plain(*value))) return found;
  }
  if (const auto inside = boxed(text)) {
    if (auto found = read(plain(*inside))) return found;
  }
  n = 0;
  for (size_t at = word_before(text, text.size()); at != std::string_view::npos && n < kWordsMax;
       at = word_before(text, at), ++n) {
    const size_t begin = at + kWord.size();
    const std::string_view after = reach == 0 ? line_at(text, begin) : text.substr(begin, reach);
    if (auto found = read(plain(after))) return found;
  }
  return {};
}

// Whether the letter at `i` stands alone and is not one of the words "A" and "I".
bool stands_alone(std::string_view text, size_t i) {
  if (i > 0 && is_word(text[i - 1])) return false;
  if (i + 1 == text.size()) return true;
  if (is_word(text[i + 1])) return false;
  const char letter = to_upper(text[i]);
  const bool may_be_word = letter == 'A' || letter == 'I';
  return !(may_be_word && text[i + 1] == ' ' && i + 2 < text.size() && is_lower(text[i + 2]));
}

// The first (or last) capital that stands alone and is a choice.
std::optional<char> capital(std::string_view text, int64_t n_choices, bool last) {
  std::optional<char> found;
  for (size_t i = 0; i < text.size() && (last || !found); ++i) {
    if (text[i] >= 'A' && text[i] < 'A' + n_choices && stands_alone(text, i)) found = text[i];
  }
  return found;
}

// A short text that begins with a letter in either case, or holds a capital.
std::optional<char> choice_in(std::string_view text, int64_t n_choices) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return std::nullopt;
  const char letter = to_upper(text[first]);
  if (letter >= 'A' && letter < 'A' + n_choices && stands_alone(text, first)) return letter;
  return capital(text, n_choices, false);
}

// A number as it stands in `text` from `begin` on, and where it ends.
struct Number {
  std::string text;
  size_t end = 0;
};

size_t digits_end(std::string_view text, size_t begin) {
  while (begin < text.size() && is_digit(text[begin])) ++begin;
  return begin;
}

Number number_at(std::string_view text, size_t begin) {
  const bool after_word = begin > 1 && is_word(text[begin - 2]);
  const bool negative = begin > 0 && text[begin - 1] == '-' && !after_word;
  size_t end = digits_end(text, begin);
  std::string digits(text.substr(begin, end - begin));
  // Groups of three behind commas.
  while (digits.size() > 0 && end < text.size() && text[end] == ',' &&
         digits_end(text, end + 1) == end + 4 && (digits.size() <= 3 || end - begin > 3)) {
    digits += text.substr(end + 1, 3);
    end += 4;
  }
  std::string fraction;
  if (end + 1 < text.size() && text[end] == '.' && is_digit(text[end + 1])) {
    const size_t fraction_end = digits_end(text, end + 1);
    fraction = text.substr(end + 1, fraction_end - end - 1);
    end = fraction_end;
  }
  std::string whole = (negative ? "-" : "") + digits;
  if (fraction.find_first_not_of('0') != std::string::npos) return {whole + "." + fraction, end};
  return {canonical_integer(whole).value_or(whole), end};
}

std::optional<std::string> number_in(std::string_view text, bool last) {
  std::optional<std::string> found;
  for (size_t i = 0; i < text.size() && (last || !found);) {
    if (!is_digit(text[i])) {
      ++i;
      continue;
    }
    Number number = number_at(text, i);
    i = number.end;
    found = std::move(number.text);
  }
  return found;
}

// Larger ones count as a line that no file has.
int64_t line_number(std::string_view digits) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc() ? value : std::numeric_limits<int64_t>::max();
}

// Past "-" or "to" between two numbers; `at` when there is none.
size_t range_sign_end(std::string_view text, size_t at) {
  size_t i = text.find_first_not_of(" \t", at);
  if (i == std::string_view::npos) return at;
  if (text[i] == '-') {
    ++i;
  } else if (text.substr(i, 3) == "to ") {
    i += 3;
  } else {
    return at;
  }
  i = text.find_first_not_of(" \t", i);
  return i != std::string_view::npos && is_digit(text[i]) ? i : at;
}

std::optional<std::vector<LineRange>> lines_in(std::string_view text) {
  std::vector<LineRange> ranges;
  for (size_t i = 0; i < text.size();) {
    if (!is_digit(text[i])) {
      ++i;
      continue;
    }
    size_t end = digits_end(text, i);
    LineRange range{line_number(text.substr(i, end - i)), 0};
    range.last = range.first;
    if (const size_t second = range_sign_end(text, end); second != end) {
      end = digits_end(text, second);
      range.last = line_number(text.substr(second, end - second));
    }
    ranges.push_back(range);
    i = end;
  }
  if (ranges.empty()) return std::nullopt;
  return ranges;
}

// The last line with text, when it holds line numbers and nothing else.
std::vector<LineRange> lines_of_last_line(std::string_view text) {
  const size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string_view::npos) return {};
  text = text.substr(0, end + 1);
  std::string line = plain(text.substr(text.rfind('\n') + 1));  // npos + 1 == 0
  for (const std::string_view word : {"Lines", "lines", "Line", "line", "and", "to"}) {
    std::string bare = line;
    replace_all(bare, word, "");
    if (bare != line && word != "to") line = std::move(bare);
  }
  std::string rest = line;
  replace_all(rest, "to", "");
  const bool only = rest.find_first_not_of("0123456789,-.; \t\r") == std::string::npos;
  return only ? lines_in(line).value_or(std::vector<LineRange>()) : std::vector<LineRange>();
}

}  // namespace

std::optional<char> pick_choice(std::string_view text, int64_t n_choices) {
  const auto found =
      search(text, kChoiceReach, [&](std::string_view part) { return choice_in(part, n_choices); });
  return found ? found : capital(plain(text), n_choices, true);
}

std::optional<std::string> pick_integer(std::string_view text) {
  const auto found =
      search(text, kIntegerReach, [](std::string_view part) { return number_in(part, false); });
  return found ? found : number_in(plain(text), true);
}

std::vector<LineRange> pick_lines(std::string_view text) {
  const auto found = search(text, 0, [](std::string_view part) { return lines_in(part); });
  return found ? *found : lines_of_last_line(text);
}

std::string to_text(std::span<const LineRange> lines) {
  std::string out;
  for (const LineRange& range : lines) {
    if (!out.empty()) out += ',';
    out += range.first == range.last ? fmt::format("{}", range.first)
                                     : fmt::format("{}-{}", range.first, range.last);
  }
  return out;
}

std::string pick_text(AnswerKind kind, std::string_view text, int64_t n_choices) {
  switch (kind) {
    case AnswerKind::kChoice: {
      const auto letter = pick_choice(text, n_choices);
      return letter ? std::string(1, *letter) : std::string();
    }
    case AnswerKind::kInteger:
      return pick_integer(text).value_or("");
    case AnswerKind::kLineSet:
      return to_text(pick_lines(text));
    case AnswerKind::kContent:
    case AnswerKind::kToolCalls:
      break;
  }
  return {};
}

}  // namespace ds4::eval
