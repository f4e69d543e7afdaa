#pragma once
// What a run amounts to, as text for a person and as JSON to keep, and two kept ones against each
// other: case by case, since two totals can be equal where every answer differs.
//
// Thread-safe.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "eval/outcome.h"

namespace ds4::eval {

struct SourceTotals {
  std::string source;
  int64_t cases = 0;
  int64_t passed = 0, failed = 0, skipped = 0, stopped = 0, errors = 0, pending = 0;
  int64_t soft_forced = 0, hard_forced = 0, natural = 0;
  int64_t prompt_tokens = 0, generated_tokens = 0;  // of passed and failed ones
  int64_t cut = 0;                                  // answers that reached the token limit
};

// One entry a source, in the order of first appearance, and all together ("all").
struct Totals {
  std::vector<SourceTotals> by_source;
  SourceTotals all;
};
Totals total(std::span<const Outcome> outcomes);

// A table by source, and the failures with what was picked and expected, `failures_max` of them at
// most. Texts of models are shortened, and not free of control characters.
std::string totals_table(const Totals& totals);
std::string failure_list(std::span<const Outcome> outcomes, int64_t failures_max);

// "PASS fact-capital/fact-capital-1  8 tokens  0.2 s": a finished case.
std::string outcome_line(const Outcome& outcome, int64_t n_cases);

// What a report says besides outcomes: names and values in order.
using ReportFacts = std::vector<std::pair<std::string, nlohmann::ordered_json>>;

std::string report_json(const ReportFacts& facts, std::span<const Outcome> outcomes,
                        double elapsed_seconds);

// Two reports compared.
struct Comparison {
  struct Changed {
    std::string id, source;
    bool now_passes = false;
    std::string old_picked, new_picked, expected;
  };
  int64_t both_passed = 0, neither = 0, gained = 0, lost = 0;
  int64_t other_answer = 0;            // failed both times, with another answer
  int64_t only_old = 0, only_new = 0;  // cases that were graded in one of them only
  double p_value = 1;                  // two-sided sign test over gained and lost
  std::vector<Changed> changed;
};

// `old_text` and `new_text` are reports; the names stand in errors. Errors: kCorrupt.
Result<Comparison> compare_reports(std::string_view old_text, std::string_view old_name,
                                   std::string_view new_text, std::string_view new_name);
std::string comparison_text(const Comparison& comparison);

// The probability that of gained + lost fair coins at least as many fall on one side.
double sign_test(int64_t gained, int64_t lost);

}  // namespace ds4::eval
