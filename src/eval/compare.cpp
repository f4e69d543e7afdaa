// Two reports of the same cases, case by case.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "chat/json_text.h"
#include "eval/report.h"
#include "eval/text.h"

namespace ds4::eval {
namespace {

using Json = nlohmann::ordered_json;

struct Entry {
  std::string id, source, picked, expected;
  bool passed = false;
};

Result<std::string> text_of(const Json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_string()) {
    return fail(ErrorCode::kCorrupt, fmt::format("{}: expected a string", key));
  }
  return it->get<std::string>();
}

// Nothing for a case without a grade.
Result<std::optional<Entry>> read_entry(const Json& value) {
  if (!value.is_object()) return fail(ErrorCode::kCorrupt, "expected an object");
  Entry entry;
  DS4_TRY(entry.id, text_of(value, "id"));
  DS4_TRY(entry.source, text_of(value, "source"));
  DS4_TRY(entry.picked, text_of(value, "picked"));
  DS4_TRY(entry.expected, text_of(value, "expected"));
  DS4_TRY(const std::string status, text_of(value, "status"));
  entry.passed = status == name_of(CaseStatus::kPassed);
  if (!entry.passed && status != name_of(CaseStatus::kFailed)) return std::optional<Entry>();
  return std::optional<Entry>(std::move(entry));
}

Result<std::vector<Entry>> read_report(std::string_view text, std::string_view name) {
  const auto report = parse_json(text);
  if (!report) return fail_within(name, report.error());
  const bool has_cases =
      report->is_object() && report->contains("cases") && (*report)["cases"].is_array();
  if (!has_cases) {
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("{}: expected a report of ds4-eval --json, with an array `cases`", name));
  }
  std::vector<Entry> entries;
  size_t i = 0;
  for (const Json& value : (*report)["cases"]) {
    auto entry = read_entry(value);
    if (!entry) return fail_within(fmt::format("{}: cases[{}]", name, i), entry.error());
    if (*entry) entries.push_back(std::move(**entry));
    ++i;
  }
  return entries;
}

void compare_entry(const Entry& before, const Entry& after, Comparison& out) {
  if (before.passed && after.passed) {
    ++out.both_passed;
    return;
  }
  if (!before.passed && !after.passed) {
    ++out.neither;
    out.other_answer += before.picked != after.picked;
    return;
  }
  ++(after.passed ? out.gained : out.lost);
  out.changed.push_back(
      {after.id, after.source, after.passed, before.picked, after.picked, after.expected});
}

}  // namespace

double sign_test(int64_t gained, int64_t lost) {
  const int64_t n = gained + lost, k = std::max(gained, lost);
  if (n == 0) return 1;
  // Binomial coefficients by their logarithms: n can be thousands.
  double tail = 0;
  for (int64_t i = k; i <= n; ++i) {
    tail += std::exp(std::lgamma(n + 1.0) - std::lgamma(i + 1.0) - std::lgamma(n - i + 1.0) -
                     static_cast<double>(n) * std::log(2.0));
  }
  return std::min(1.0, 2 * tail);
}

Result<Comparison> compare_reports(std::string_view old_text, std::string_view old_name,
                                   std::string_view new_text, std::string_view new_name) {
  DS4_TRY(const std::vector<Entry> before, read_report(old_text, old_name));
  DS4_TRY(const std::vector<Entry> after, read_report(new_text, new_name));
  std::unordered_map<std::string, const Entry*> by_id;
  for (const Entry& entry : before) by_id[entry.id] = &entry;
  Comparison out;
  for (const Entry& entry : after) {
    const auto it = by_id.find(entry.id);
    if (it == by_id.end()) {
      ++out.only_new;
      continue;
    }
    if (it->second->expected != entry.expected) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("{} and {}: case '{}' expects another answer in each: these are not "
                              "the same cases",
                              old_name, new_name, entry.id));
    }
    compare_entry(*it->second, entry, out);
    by_id.erase(it);
  }
  out.only_old = std::ssize(by_id);
  out.p_value = sign_test(out.gained, out.lost);
  return out;
}

std::string comparison_text(const Comparison& c) {
  const int64_t n = c.both_passed + c.neither + c.gained + c.lost;
  std::string out = fmt::format(
      "cases in both  {}\npassed         {} -> {}\ngained         {}\nlost           {}\n"
      "sign test      p = {:.3g} (two-sided)\nfailed twice   {}, {} with another answer\n",
      n, c.both_passed + c.lost, c.both_passed + c.gained, c.gained, c.lost, c.p_value, c.neither,
      c.other_answer);
  if (c.only_old + c.only_new > 0) {
    out += fmt::format("not compared   {} only in the old report, {} only in the new\n", c.only_old,
                       c.only_new);
  }
  for (const bool gained : {false, true}) {
    for (const Comparison::Changed& changed : c.changed) {
      if (changed.now_passes != gained) continue;
      out += fmt::format("{} {}\n  old       {}\n  new       {}\n  expected  {}\n",
                         gained ? "gained" : "lost", changed.id, shown(changed.old_picked),
                         shown(changed.new_picked), shown(changed.expected));
    }
  }
  return out;
}

}  // namespace ds4::eval
