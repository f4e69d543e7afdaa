#include "eval/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "eval/text.h"

namespace ds4::eval {
namespace {

using Json = nlohmann::ordered_json;

void add(SourceTotals& totals, const Outcome& o) {
  ++totals.cases;
  totals.passed += o.status == CaseStatus::kPassed;
  totals.failed += o.status == CaseStatus::kFailed;
  totals.skipped += o.status == CaseStatus::kSkipped;
  totals.stopped += o.status == CaseStatus::kStopped;
  totals.errors += o.status == CaseStatus::kError;
  totals.pending += o.status == CaseStatus::kPending;
  if (o.status != CaseStatus::kPassed && o.status != CaseStatus::kFailed) return;
  totals.natural += o.think_close.kind == CloseKind::kNatural;
  totals.soft_forced += o.think_close.kind == CloseKind::kSoftForced;
  totals.hard_forced += o.think_close.kind == CloseKind::kHardForced;
  totals.prompt_tokens += o.prompt_tokens;
  totals.generated_tokens += o.generated_tokens;
  totals.cut += o.finish == Finish::kLength;
}

double mean(int64_t sum, int64_t n) {
  return n == 0 ? 0.0 : static_cast<double>(sum) / static_cast<double>(n);
}

std::string table_row(const SourceTotals& t, size_t width) {
  const int64_t graded = t.passed + t.failed;
  std::string notes;
  const auto note = [&](int64_t n, const char* what) {
    if (n > 0) notes += fmt::format("{}{} {}", notes.empty() ? "  " : ", ", n, what);
  };
  note(t.soft_forced + t.hard_forced, "closed by force");
  note(t.cut, "cut at the limit");
  note(t.skipped, "skipped");
  note(t.errors, "errors");
  note(t.stopped, "stopped");
  note(t.pending, "not run");
  return fmt::format("{:<{}}  {:>4} / {:<4}  {:>5.1f} %  {:>8.1f}{}\n", t.source, width, t.passed,
                     graded, 100 * mean(t.passed, graded), mean(t.generated_tokens, graded), notes);
}

Json totals_json(const SourceTotals& t) {
  Json out;
  out["source"] = t.source;
  out["cases"] = t.cases;
  out["passed"] = t.passed;
  out["failed"] = t.failed;
  out["skipped"] = t.skipped;
  out["stopped"] = t.stopped;
  out["errors"] = t.errors;
  out["not_run"] = t.pending;
  out["mean_generated_tokens"] = mean(t.generated_tokens, t.passed + t.failed);
  out["think_closed"] = {
      {"natural", t.natural}, {"soft_forced", t.soft_forced}, {"hard_forced", t.hard_forced}};
  out["cut_at_limit"] = t.cut;
  return out;
}

Json outcome_json(const Outcome& o) {
  Json out;
  out["id"] = o.id;
  out["source"] = o.source;
  out["status"] = name_of(o.status);
  out["answer_kind"] = name_of(o.answer_kind);
  out["picked"] = o.picked;
  out["expected"] = o.expected;
  if (!o.error.empty()) out["error"] = o.error;
  out["thinking"] = o.thinking;
  out["think_close"] = name_of(o.think_close.kind);
  out["finish"] = o.finish == Finish::kStop ? "stop" : "length";
  out["prompt_tokens"] = o.prompt_tokens;
  out["generated_tokens"] = o.generated_tokens;
  out["elapsed_sec"] = o.elapsed_seconds;
  return out;
}

}  // namespace

Totals total(std::span<const Outcome> outcomes) {
  Totals totals;
  totals.all.source = "all";
  for (const Outcome& o : outcomes) {
    auto it = std::ranges::find(totals.by_source, o.source, &SourceTotals::source);
    if (it == totals.by_source.end()) {
      totals.by_source.push_back({.source = o.source});
      it = std::prev(totals.by_source.end());
    }
    add(*it, o);
    add(totals.all, o);
  }
  return totals;
}

std::string totals_table(const Totals& totals) {
  size_t width = 6;
  for (const SourceTotals& t : totals.by_source) width = std::max(width, t.source.size());
  std::string out = fmt::format("{:<{}}  {:>4}   {:<4}  {:>7}  {:>8}\n", "source", width, "pass",
                                "of", "", "tokens");
  for (const SourceTotals& t : totals.by_source) out += table_row(t, width);
  return out + table_row(totals.all, width);
}

std::string failure_list(std::span<const Outcome> outcomes, int64_t failures_max) {
  std::string out;
  int64_t n = 0;
  for (const Outcome& o : outcomes) {
    const bool failed = o.status == CaseStatus::kFailed;
    const bool broken = o.status == CaseStatus::kError || o.status == CaseStatus::kSkipped;
    if (!failed && !broken) continue;
    if (++n > failures_max) continue;
    out += failed ? fmt::format("{}\n  picked    {}\n  expected  {}\n", o.id, shown(o.picked),
                                shown(o.expected))
                  : fmt::format("{}\n  {}: {}\n", o.id, name_of(o.status), shown(o.error));
  }
  if (n > failures_max) out += fmt::format("and {} more\n", n - failures_max);
  return out;
}

std::string outcome_line(const Outcome& o, int64_t n_cases) {
  const char* word = o.status == CaseStatus::kPassed   ? "pass"
                     : o.status == CaseStatus::kFailed ? "FAIL"
                                                       : name_of(o.status);
  std::string line =
      fmt::format("{:>4}/{}  {:<7}  {}  {} + {} tokens, {:.1f} s", o.index + 1, n_cases, word, o.id,
                  o.prompt_tokens, o.generated_tokens, o.elapsed_seconds);
  if (o.status == CaseStatus::kFailed) {
    line += fmt::format("; picked {}, expected {}", shown(o.picked), shown(o.expected));
  }
  if (!o.error.empty()) line += fmt::format("; {}", shown(o.error));
  return line + "\n";
}

std::string report_json(const ReportFacts& facts, std::span<const Outcome> outcomes,
                        double elapsed_seconds) {
  Json report;
  report["format"] = "ds4-eval report 1";
  for (const auto& [name, value] : facts) report[name] = value;
  report["elapsed_sec"] = elapsed_seconds;
  const Totals totals = total(outcomes);
  report["totals"] = totals_json(totals.all);
  report["totals"].erase("source");
  report["by_source"] = Json::array();
  for (const SourceTotals& t : totals.by_source) report["by_source"].push_back(totals_json(t));
  report["cases"] = Json::array();
  for (const Outcome& o : outcomes) report["cases"].push_back(outcome_json(o));
  return report.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ds4::eval
