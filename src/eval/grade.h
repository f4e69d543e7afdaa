#pragma once
// Whether an answer is right. A function of text alone, so that a trace can be graded again.
//
//   content     the text after </think>, equal to the expected one but for white space at the end
//               of either
//   tool calls  the calls in the answer: as many, in this order, of these names, arguments equal as
//               JSON values: the order of members does not count, and numbers are equal when their
//               values are (1 and 1.0). Text beside the calls does not count.
//   choice, integer, lines
//               what eval/extract.h picks; lines are right when there are some and each is among
//               the expected ones
//
// Thread-safe.
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "chat/tool_calls.h"
#include "eval/case.h"

namespace ds4::eval {

// What a model said, as it stands in a trace.
struct AnswerText {
  std::string_view raw;   // markers included
  bool thinking = false;  // whether it began in thinking mode
  Finish finish = Finish::kStop;
  std::span<const Tool> tools;
};

// The two sides of the first </think>. Without one, all is reasoning in thinking mode, and content
// otherwise; a <think> at the very start is dropped.
struct SplitAnswer {
  std::string_view reasoning, content;
  bool closed = false;
};
SplitAnswer split_answer(std::string_view raw, bool thinking);

struct Grade {
  bool passed = false;
  std::string picked;  // in the form of to_text(Expected)
};
Grade grade(const Expected& expected, const AnswerText& answer);

// For reports: the text, a JSON array of calls, a letter, digits, "12,15-17".
std::string to_text(const Expected& expected);

// What to_text() wrote. Errors: kCorrupt.
Result<Expected> expected_from_text(AnswerKind kind, std::string_view text, int64_t n_choices);

bool json_equal(const nlohmann::ordered_json& a, const nlohmann::ordered_json& b);

}  // namespace ds4::eval
