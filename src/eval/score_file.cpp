// Score files of continuations: written, read back, compared.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "eval/continuation.h"
#include "eval/table.h"

namespace ds4::eval {
namespace {

constexpr std::string_view kColumns =
    "id\tprompt_tokens\ttarget_tokens\tnll\tnll_per_token\tfirst_match\tgreedy_prefix";
constexpr double kSame = 1e-9;  // a smaller difference is no win

template <typename T>
bool read_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

Result<ContinuationScore> read_score(const std::vector<std::string_view>& columns) {
  ContinuationScore score;
  int64_t first = 0;
  double per_token = 0;
  const bool good = columns.size() == 7 && !columns[0].empty() &&
                    read_number(columns[1], score.prompt_tokens) &&
                    read_number(columns[2], score.target_tokens) &&
                    read_number(columns[3], score.nll) && read_number(columns[4], per_token) &&
                    read_number(columns[5], first) && read_number(columns[6], score.greedy_prefix);
  const bool sound = good && score.prompt_tokens >= 1 && score.target_tokens >= 1 &&
                     std::isfinite(score.nll) && (first == 0 || first == 1) &&
                     score.greedy_prefix >= 0 && score.greedy_prefix <= score.target_tokens;
  if (!sound) {
    return fail(ErrorCode::kCorrupt,
                "expected a score: id, prompt_tokens, target_tokens, nll, nll_per_token, "
                "first_match (0 or 1), greedy_prefix, with tabs between them");
  }
  score.id = columns[0];
  score.first_match = first == 1;
  return score;
}

struct Mover {
  std::string id;
  double change = 0;  // of NLL a token
};

std::string movers(std::vector<Mover> all, bool better) {
  constexpr size_t kShown = 5;
  std::ranges::sort(all, [&](const Mover& a, const Mover& b) {
    return better ? a.change < b.change : a.change > b.change;
  });
  std::string out = better ? "most improved\n" : "most worsened\n";
  size_t n = 0;
  for (const Mover& mover : all) {
    const bool counts = better ? mover.change < -kSame : mover.change > kSame;
    if (!counts || n++ == kShown) break;
    out += fmt::format("  {}  {:+.6f} per token\n", mover.id, mover.change);
  }
  return n == 0 ? "" : out;
}

}  // namespace

Result<std::vector<TableRow>> table_rows(std::string_view text) {
  std::vector<TableRow> rows;
  int64_t number = 0;
  while (!text.empty()) {
    const size_t size = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, size);
    text.remove_prefix(std::min(size + 1, text.size()));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with('#') || line.find_first_not_of(" \t") == std::string_view::npos) continue;
    if (std::ssize(rows) == kTableRowsMax) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("line {}: expected at most {} lines", number, kTableRowsMax));
    }
    TableRow& row = rows.emplace_back();
    row.line = number;
    for (size_t tab = line.find('\t'); tab != std::string_view::npos; tab = line.find('\t')) {
      row.columns.push_back(line.substr(0, tab));
      line.remove_prefix(tab + 1);
    }
    row.columns.push_back(line);
  }
  return rows;
}

std::string scores_text(std::span<const ContinuationScore> scores) {
  std::string out = "#" + std::string(kColumns) + "\n";
  for (const ContinuationScore& s : scores) {
    out += fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}\n", s.id, s.prompt_tokens, s.target_tokens,
                       s.nll, s.nll_per_token(), s.first_match ? 1 : 0, s.greedy_prefix);
  }
  return out;
}

Result<std::vector<ContinuationScore>> parse_scores(std::string_view text, std::string_view name) {
  auto rows = table_rows(text);
  if (!rows) return fail_within(name, rows.error());
  std::vector<ContinuationScore> scores;
  std::unordered_set<std::string> ids;
  for (const TableRow& row : *rows) {
    const std::string where = fmt::format("{}:{}", name, row.line);
    auto score = read_score(row.columns);
    if (!score) return fail_within(where, score.error());
    if (!ids.insert(score->id).second) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("{}: id: expected each once, found '{}' again", where, score->id));
    }
    scores.push_back(std::move(*score));
  }
  if (scores.empty()) {
    return fail(ErrorCode::kCorrupt, fmt::format("{}: expected scores, found none", name));
  }
  return scores;
}

Result<std::string> compare_scores(std::span<const ContinuationScore> before,
                                   std::span<const ContinuationScore> after) {
  std::vector<Mover> changes;
  int64_t old_wins = 0, new_wins = 0;
  if (before.size() != after.size()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("expected scores of the same cases, found {} and {}", before.size(),
                            after.size()));
  }
  std::unordered_map<std::string_view, const ContinuationScore*> by_id;
  for (const ContinuationScore& score : before) by_id[score.id] = &score;
  for (const ContinuationScore& score : after) {
    const auto place = by_id.find(score.id);
    const ContinuationScore* it = place == by_id.end() ? nullptr : place->second;
    if (it == nullptr || it->target_tokens != score.target_tokens) {
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("case '{}': expected the same number of target tokens in both files, "
                      "found {} and {}",
                      score.id, it == nullptr ? 0 : it->target_tokens, score.target_tokens));
    }
    old_wins += it->nll < score.nll - kSame;
    new_wins += score.nll < it->nll - kSame;
    changes.push_back({score.id, score.nll_per_token() - it->nll_per_token()});
  }
  const ContinuationSummary a = summarize(before), b = summarize(after);
  const double change = b.mean_nll - a.mean_nll;
  std::string out = fmt::format(
      "cases {}  target tokens {}\n"
      "mean nll per token   {:.6f} -> {:.6f}  {:+.6f} ({:+.2f} %)\n"
      "cases better         {} old, {} new, {} equal\n"
      "first-token matches  {} -> {}\nmean greedy prefix   {:.2f} -> {:.2f}\n",
      a.cases, a.target_tokens, a.mean_nll, b.mean_nll, change,
      a.mean_nll > 0 ? 100 * change / a.mean_nll : 0.0, old_wins, new_wins,
      a.cases - old_wins - new_wins, a.first_matches, b.first_matches, a.mean_greedy_prefix,
      b.mean_greedy_prefix);
  return out + movers(changes, true) + movers(changes, false);
}

}  // namespace ds4::eval
