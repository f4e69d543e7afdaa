#pragma once
// Finding the answer to a question in what a model wrote. The model is asked to end with one line
// `Answer: ` and a letter, an integer or line numbers; models do this in many ways.
//
// In this order, the first that gives something:
//   1. the last line with the word "answer", markup or spaces, and a colon; the rest of the line
//      counts, or the next line with text when nothing is there. Of several such lines, the last
//      one with an answer in it.
//   2. the last \boxed{...}
//   3. the text after the last word "answer" that has an answer in it: 96 bytes for a letter, 160
//      for an integer, the rest of the line for line numbers
//   4. a letter: the last one that stands alone in the text; an integer: the last number; line
//      numbers: the last line, when it holds nothing else
//
// Markdown, \boxed, \text and parentheses around an answer do not count. The articles "A" and "I"
// before a small letter are words, not choices.
//
// Thread-safe.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "eval/case.h"

namespace ds4::eval {

// A capital letter, A to the n_choices-th.
std::optional<char> pick_choice(std::string_view text, int64_t n_choices);

// As canonical_integer(); "1,234" is 1234 and "12.0" is 12. A number that is no integer is picked
// as it stands, so that it is counted wrong and can be shown.
std::optional<std::string> pick_integer(std::string_view text);

// In the order written; empty when there are none. Ranges may use "-", an en dash or "to".
std::vector<LineRange> pick_lines(std::string_view text);

// One line of --self-test-extractors.
struct ExtractorCase {
  AnswerKind kind;
  int64_t n_choices;
  std::string_view text;
  std::string_view picked;  // empty: nothing
};
std::span<const ExtractorCase> extractor_cases();

// What the extractor of `kind` picks, as text; empty for nothing.
std::string pick_text(AnswerKind kind, std::string_view text, int64_t n_choices);

// "12,15-17"
std::string to_text(std::span<const LineRange> lines);

}  // namespace ds4::eval
