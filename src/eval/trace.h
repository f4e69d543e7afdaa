#pragma once
// The trace of a run: everything that went in and came out, as text, in a form that can be graded
// again. docs/formats/eval.md has the grammar.
//
// Values stand on one line, with \n \r \t \\ and \xNN for what a line cannot hold; blocks of text
// are framed by their byte count, so that nothing in them can be taken for the frame.
//
// Thread-safe.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "eval/outcome.h"
#include "eval/prompt.h"
#include "eval/runner.h"

namespace ds4::eval {

struct TraceHeader {
  int64_t started_unix = 0;
  std::string model, backend;
  int64_t ctx = 0;
  int64_t max_prompt_tokens = 0;
  int64_t questions = 0;
  std::string think_mode_requested;  // "think", "nothink", "case"
  AnswerOptions answer;
};

std::string trace_header(const TraceHeader& header);

// One finished case, `n_cases` in all.
std::string trace_case(const Outcome& outcome, int64_t n_cases, const Case& c, const Prompt& prompt,
                       const SamplerOptions& sampler);

using TraceFields = std::vector<std::pair<std::string, std::string>>;

struct ParsedTrace {
  TraceFields header;
  std::vector<Outcome> outcomes;  // a case that was run twice counts once, as it came last
};

// Reads a trace and grades its answers again: status and picked are those of this program, not
// those in the trace; cases that came to no answer (skipped, error) keep their status. Errors:
// kCorrupt with `name` and the line.
Result<ParsedTrace> regrade_trace(std::string_view text, std::string_view name);

}  // namespace ds4::eval
