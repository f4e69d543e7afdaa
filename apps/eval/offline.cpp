// What needs no model: lists, gradings and comparisons of what earlier runs left.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "eval/continuation.h"
#include "eval/extract.h"
#include "eval/text.h"
#include "eval/trace.h"
#include "program.h"
#include "quantizer/calibration_text.h"

namespace ds4::evaluate {
namespace {

// "3,1,10-12" as places in a list of `n`. A place may come once.
Result<std::vector<size_t>> parse_sequence(const std::string& text, size_t n) {
  const auto ranges = eval::parse_line_set(text);
  if (!ranges) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("--case-sequence: expected numbers such as 7,3,100-110, found '{}'", text));
  }
  std::vector<size_t> places;
  std::unordered_set<size_t> seen;
  for (const eval::LineRange& range : *ranges) {
    if (range.last > static_cast<int64_t>(n)) {
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("--case-sequence: expected numbers up to {}, found {}", n, range.last));
    }
    for (int64_t number = range.first; number <= range.last; ++number) {
      if (!seen.insert(static_cast<size_t>(number)).second) {
        return fail(
            ErrorCode::kInvalidArgument,
            fmt::format("--case-sequence: expected each number once, found {} again", number));
      }
      places.push_back(static_cast<size_t>(number - 1));
    }
  }
  return places;
}

Result<void> keep_sources(std::vector<eval::Case>& cases, const std::vector<std::string>& sources) {
  for (const std::string& source : sources) {
    if (std::ranges::none_of(cases, [&](const auto& c) { return c.source == source; })) {
      std::vector<std::string> names;
      for (const eval::Case& c : cases) {
        if (std::ranges::find(names, c.source) == names.end()) names.push_back(c.source);
      }
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("--source: expected one of {}; found '{}'", fmt::join(names, ", "), source));
    }
  }
  std::erase_if(cases, [&](const eval::Case& c) {
    return std::ranges::find(sources, c.source) == sources.end();
  });
  return {};
}

}  // namespace

Result<std::vector<eval::Case>> chosen_cases(const Options& options) {
  auto loaded = options.cases_file.empty()
                    ? eval::parse_cases(eval::nano_suite_text(), "suite " + options.suite)
                    : eval::load_cases(options.cases_file);
  if (!loaded) return tl::unexpected(loaded.error());
  std::vector<eval::Case> cases = std::move(*loaded);
  if (!options.sources.empty()) DS4_TRY_VOID(keep_sources(cases, options.sources));
  if (!options.sequence.empty()) {
    DS4_TRY(const std::vector<size_t> places, parse_sequence(options.sequence, cases.size()));
    std::vector<eval::Case> ordered;
    for (const size_t place : places) ordered.push_back(std::move(cases[place]));
    cases = std::move(ordered);
  }
  if (options.questions > 0 && options.questions < std::ssize(cases)) {
    cases.resize(static_cast<size_t>(options.questions));
  }
  return cases;
}

Result<int> list_cases(const Options& options) {
  DS4_TRY(const std::vector<eval::Case> cases, chosen_cases(options));
  std::string out;
  size_t number = 0;
  for (const eval::Case& c : cases) {
    out += fmt::format("{:>4}  {:<24}  {:<16}  {:<10}  {}\n", ++number, c.id, c.source,
                       eval::name_of(c.expected.kind), c.title);
  }
  DS4_TRY_VOID(print(out));
  return 0;
}

int self_test_extractors() {
  int64_t n = 0, wrong = 0;
  for (const eval::ExtractorCase& c : eval::extractor_cases()) {
    const std::string picked = eval::pick_text(c.kind, c.text, c.n_choices);
    ++n;
    if (picked == c.picked) continue;
    ++wrong;
    fmt::print("{}: picked '{}', expected '{}' in: {}\n", eval::name_of(c.kind), picked, c.picked,
               eval::escape_line(c.text));
  }
  fmt::print("{} texts, {} wrong\n", n, wrong);
  return wrong == 0 ? 0 : app::kExitFailed;
}

Result<int> regrade(const Options& options) {
  DS4_TRY(const std::string text, read_file(options.regrade));
  DS4_TRY(const eval::ParsedTrace trace, eval::regrade_trace(text, options.regrade));
  const eval::Totals totals = eval::total(trace.outcomes);
  DS4_TRY_VOID(print(eval::totals_table(totals)));
  DS4_TRY_VOID(print(eval::failure_list(trace.outcomes, options.failures_shown)));
  if (!options.json.empty()) {
    eval::ReportFacts facts;
    for (const auto& [name, value] : trace.header) facts.emplace_back(name, value);
    DS4_TRY_VOID(write_file(options.json, eval::report_json(facts, trace.outcomes, 0)));
  }
  return exit_code_of(totals, options);
}

Result<int> compare(const Options& options) {
  DS4_TRY(const std::string before, read_file(options.compare[0]));
  DS4_TRY(const std::string after, read_file(options.compare[1]));
  DS4_TRY(const eval::Comparison comparison,
          eval::compare_reports(before, options.compare[0], after, options.compare[1]));
  DS4_TRY_VOID(print(eval::comparison_text(comparison)));
  return 0;
}

Result<int> compare_scores(const Options& options) {
  std::vector<std::vector<eval::ContinuationScore>> scores;
  for (const std::string& path : options.compare_scores) {
    DS4_TRY(const std::string text, read_file(path));
    DS4_TRY(scores.emplace_back(), eval::parse_scores(text, path));
  }
  DS4_TRY(const std::string text, eval::compare_scores(scores[0], scores[1]));
  DS4_TRY_VOID(print(text));
  return 0;
}

Result<int> render_cases(const Options& options) {
  DS4_TRY(const std::vector<eval::Case> cases, chosen_cases(options));
  // Without a model there is no name to guess the profile from.
  DS4_TRY(const EffortProfile profile,
          select_effort_profile(
              options.effort_profile == "auto" ? "preview" : options.effort_profile, {}));
  const eval::PromptOptions prompt{
      .thinking = options.thinking, .think_forced = options.think_forced, .profile = profile};
  std::string text;
  for (const eval::Case& c : cases) {
    DS4_TRY(const std::string chat, eval::rendered_chat(c, prompt));
    text += fmt::format("{} {}\n{}\n", kCalibrationMark, c.id, chat);
  }
  DS4_TRY_VOID(write_file(options.render_cases, text));
  DS4_TRY_VOID(print(fmt::format("{} chats\n", cases.size())));
  return 0;
}

}  // namespace ds4::evaluate
