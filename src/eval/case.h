#pragma once
// One question of an evaluation: a conversation to answer and what counts as right.
//
// A case file is JSON lines, each an object of one of two forms, told apart by `expect`:
//
//   conversation  {id, kind?, think?, messages, tools?, expect: {content} or {tool_calls: [{name,
//                 arguments}]}}; messages and tools as in the chat API
//   question      {id, source?, domain?, title?, question, choices?, answer}
//
// The answer of a question says how it is graded: with choices a letter; otherwise an integer, or a
// set of line numbers when it is an array, a text with a comma or a range ("12, 15-17"), or the
// source is COMPSEC. Blank lines are skipped.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/conversation.h"

namespace ds4::eval {

inline constexpr int64_t kCaseFileBytesMax = int64_t{256} << 20;
inline constexpr int64_t kCasesMax = 100000;
inline constexpr int64_t kChoicesMax = 10;

enum class AnswerKind {
  kContent,    // this text, but for white space at its end
  kToolCalls,  // these calls in this order, arguments equal as JSON values
  kChoice,     // a letter
  kInteger,
  kLineSet,  // one or more line numbers, all of them accepted ones
};
const char* name_of(AnswerKind kind);

// Numbers first .. last, both included.
struct LineRange {
  int64_t first = 0;
  int64_t last = 0;

  bool operator==(const LineRange&) const = default;
};

struct Expected {
  AnswerKind kind = AnswerKind::kContent;
  std::string text;              // kContent; kChoice: "C"; kInteger: digits, "-" in front
  std::vector<ToolCall> calls;   // kToolCalls; arguments are JSON text, ids empty
  std::vector<LineRange> lines;  // kLineSet
  int64_t n_choices = 0;         // kChoice
};

struct Case {
  std::string id;
  std::string source;  // conversation form: its kind
  std::string domain;
  std::string title;  // one line for lists
  int64_t line = 0;   // in its file, from 1

  // The conversation form's own; of a question, what eval/prompt.h makes of it.
  Conversation conversation;
  std::optional<bool> think;  // what the case asks for, if it does

  // Question form, otherwise empty.
  std::string question;
  std::vector<std::string> choices;

  Expected expected;
};

// All cases of a text, in order. `name` stands in front of error messages, with the line. Errors:
// kCorrupt for what is no JSON, has a wrong type or an unknown form, repeats an id, or is not
// UTF-8; kInvalidArgument without any case, or beyond a limit above.
Result<std::vector<Case>> parse_cases(std::string_view text, std::string_view name);

// The same of a file. Errors: also those of MappedFile::open (a folder, nothing there).
Result<std::vector<Case>> load_cases(const std::string& path);

// "12, 15-17" or "12": ascending or not, with or without spaces. Nothing when it is anything else.
std::optional<std::vector<LineRange>> parse_line_set(std::string_view text);

// An integer as it is compared: no leading zeros, no "-0". Nothing when `text` is not one.
std::optional<std::string> canonical_integer(std::string_view text);

// The cases that every ds4-eval carries: models/nano/cases.jsonl.
std::string_view nano_suite_text();

}  // namespace ds4::eval
