// A file is one idea and a function is one screen.
#include <algorithm>
#include <array>

#include "tests/tidy/tidy.h"

namespace ds4::tidy {
namespace {

constexpr int64_t kFileLinesMax = 600;   // more fails
constexpr int64_t kFileLinesNote = 400;  // more is reported
constexpr int64_t kFunctionLinesNote = 80;

int64_t count_lines(std::string_view text) {
  return std::count(text.begin(), text.end(), '\n') + (text.empty() || text.back() == '\n' ? 0 : 1);
}

// Whether a '{' whose statement so far is `head` opens something that holds functions, not one
// itself.
bool opens_container(std::string_view head) {
  static constexpr std::array<std::string_view, 6> kWords = {"namespace", "class", "struct",
                                                             "union",     "enum",  "extern"};
  return std::any_of(kWords.begin(), kWords.end(), [&](std::string_view word) {
    const size_t at = head.find(word);
    if (at == std::string_view::npos) return false;
    // "struct Foo bar(...) {" is a function that returns one; attributes and bases hold no ')'
    // before '{'.
    return head.find(')', at) == std::string_view::npos ||
           head.find("alignas", at) != std::string_view::npos;
  });
}

// Long functions by their braces: a '{' outside any function, whose head has a ')' and no '='
// initializer before it, opens one. Heuristic, so it only reports.
void note_long_functions(const File& file, Findings& out) {
  const std::string_view code = file.code;
  size_t head_begin = 0;
  int inside = 0;  // brace depth within a function, 0 outside
  size_t function_begin = 0;
  for (size_t i = 0; i < code.size(); ++i) {
    const char c = code[i];
    if (inside > 0) {
      inside += c == '{' ? 1 : c == '}' ? -1 : 0;
      if (inside == 0) {
        const int64_t first = line_at(code, function_begin);
        const int64_t lines = line_at(code, i) - first + 1;
        if (lines > kFunctionLinesNote) {
          out.push_back({file.path, first, "function-length",
                         "function of " + std::to_string(lines) + " lines; a screen is " +
                             std::to_string(kFunctionLinesNote),
                         false});
        }
        head_begin = i + 1;
      }
    } else if (c == ';' || c == '}') {
      head_begin = i + 1;
    } else if (c == '\n' && code.substr(i + 1, 1) == "#") {
      i = std::min(code.find('\n', i + 1), code.size()) - 1;  // a directive is no head
      head_begin = i + 1;
    } else if (c == '{') {
      const std::string_view head = code.substr(head_begin, i - head_begin);
      if (head.find(')') != std::string_view::npos && !opens_container(head)) {
        function_begin = head_begin + std::min(head.find_first_not_of(" \t\n"), head.size());
        inside = 1;
      } else {
        head_begin = i + 1;
      }
    }
  }
}

}  // namespace

void check_lengths(const Tree& tree, Findings& out) {
  for (const File& file : tree.sources) {
    const int64_t lines = count_lines(file.text);
    if (lines > kFileLinesNote) {
      const bool fails = lines > kFileLinesMax;
      const int64_t limit = fails ? kFileLinesMax : kFileLinesNote;
      out.push_back(
          {file.path, 0, "file-length",
           std::to_string(lines) + " lines, over " + std::to_string(limit) + ": is there a seam?",
           fails});
    }
    note_long_functions(file, out);
  }
}

void check_pragma_once(const Tree& tree, Findings& out) {
  for (const File& file : tree.sources) {
    // A Highway -inl.h is read once for each target and guards itself.
    if (!is_header(file.path) || file.path.ends_with("-inl.h")) continue;
    if (!file.text.starts_with("#pragma once\n")) {
      out.push_back({file.path, 1, "pragma-once", "a header starts with #pragma once"});
    }
  }
}

}  // namespace ds4::tidy
