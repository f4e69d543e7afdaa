#include "page.h"

#include <fmt/format.h>

#include <algorithm>
#include <ftxui/dom/elements.hpp>
#include <ftxui/screen/screen.hpp>
#include <utility>

#include "page_text.h"

namespace ds4::evaluate {
namespace {

using eval::BoardCase;
using eval::BoardRow;
using eval::BoardSnapshot;
using eval::CaseStatus;

// A page larger than this is drawn in the corner; a terminal may claim any size.
constexpr int kColumnsMax = 500, kRowsMax = 300;

// Narrower pages do with less around the facts.
constexpr int kWideColumns = 60;

enum class Style { kPlain, kBold, kGrey, kGreen, kRed, kYellow, kCyan, kMarked };

struct Run {
  std::string text;
  Style style = Style::kPlain;
};

ftxui::Element styled(ftxui::Element element, Style style) {
  switch (style) {
    case Style::kPlain:
      return element;
    case Style::kBold:
      return element | ftxui::bold;
    case Style::kGrey:
      return element | ftxui::color(ftxui::Color::GrayDark);
    case Style::kGreen:
      return element | ftxui::color(ftxui::Color::Green);
    case Style::kRed:
      return element | ftxui::color(ftxui::Color::Red);
    case Style::kYellow:
      return element | ftxui::color(ftxui::Color::Yellow);
    case Style::kCyan:
      return element | ftxui::color(ftxui::Color::Cyan);
    case Style::kMarked:
      return element | ftxui::inverted;
  }
  return element;
}

std::string clock(double seconds) {
  const auto s = static_cast<int64_t>(std::max(seconds, 0.0));
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

// A row with `right` at its right edge; `left` gets what is over.
ftxui::Element line(const std::vector<Run>& left, const Run& right, int columns) {
  ftxui::Elements parts;
  const int right_columns = std::min(columns_of(right.text), columns);
  int over = columns - right_columns;
  for (const Run& run : left) {
    const int wanted = std::min(columns_of(run.text), over);
    if (wanted <= 0) continue;
    parts.push_back(styled(ftxui::text(fitted(run.text, wanted)), run.style));
    over -= wanted;
  }
  parts.push_back(ftxui::text(std::string(static_cast<size_t>(over), ' ')));
  parts.push_back(styled(ftxui::text(fitted(right.text, right_columns)), right.style));
  return ftxui::hbox(std::move(parts));
}

ftxui::Element title(const BoardSnapshot& seen, int columns) {
  const eval::BoardTotals& t = seen.totals;
  std::vector<Run> left;
  if (columns >= kWideColumns) left.push_back({"ds4-eval  ", Style::kBold});
  left.push_back({fmt::format("{} passed", t.passed), Style::kGreen});
  left.push_back(
      {fmt::format("  {} failed", t.failed), t.failed > 0 ? Style::kRed : Style::kPlain});
  if (t.errors > 0) left.push_back({fmt::format("  {} errors", t.errors), Style::kRed});
  if (t.skipped > 0) left.push_back({fmt::format("  {} skipped", t.skipped), Style::kYellow});
  if (t.stopped > 0) left.push_back({fmt::format("  {} stopped", t.stopped), Style::kYellow});
  left.push_back({fmt::format("  {} left", t.running + t.pending), Style::kPlain});
  const std::string time = clock(seen.elapsed_seconds);
  const bool says_paused = seen.paused && columns >= kWideColumns;  // the status row says it, too
  return line(left, {(says_paused ? " paused " : " ") + time, Style::kBold}, columns);
}

// What a status looks like in one column.
Run mark_of(CaseStatus status) {
  switch (status) {
    case CaseStatus::kPending:
      return {"·", Style::kGrey};
    case CaseStatus::kPrefill:
    case CaseStatus::kThinking:
    case CaseStatus::kAnswer:
      return {"*", Style::kYellow};
    case CaseStatus::kPassed:
      return {"✓", Style::kGreen};
    case CaseStatus::kFailed:
      return {"✗", Style::kRed};
    case CaseStatus::kSkipped:
    case CaseStatus::kStopped:
      return {"-", Style::kYellow};
    case CaseStatus::kError:
      return {"!", Style::kRed};
  }
  return {};
}

// Tokens said; of a prompt that is being read, how much of it.
std::string count_of(const BoardRow& row) {
  if (row.status == CaseStatus::kPending) return "";
  if (row.status == CaseStatus::kPrefill) {
    return fmt::format("{}%", row.prompt_done * 100 / std::max<int64_t>(row.prompt_tokens, 1));
  }
  return fmt::format("{}", row.generated_tokens);
}

ftxui::Element list(std::span<const BoardCase> cases, const BoardSnapshot& seen, int columns,
                    int rows) {
  constexpr int kCountColumns = 6, kStatusColumns = 9, kWithStatus = 30;
  const auto n = static_cast<int64_t>(cases.size());
  const auto selected = static_cast<int64_t>(seen.selected);
  const int64_t first = std::clamp<int64_t>(selected - rows / 2, 0, std::max<int64_t>(n - rows, 0));
  ftxui::Elements lines;
  for (int64_t i = first; i < std::min(n, first + rows); ++i) {
    const BoardRow& row = seen.rows[static_cast<size_t>(i)];
    const Run mark = mark_of(row.status);
    const bool with_status = columns >= kWithStatus;
    const int id_columns = columns - 2 - kCountColumns - (with_status ? kStatusColumns : 0);
    std::string rest = " " + fitted(one_line(cases[static_cast<size_t>(i)].id), id_columns);
    if (with_status) rest += fitted(std::string(" ") + eval::name_of(row.status), kStatusColumns);
    rest = fitted(rest + fitted(count_of(row), kCountColumns, true), columns - 1);
    const bool marked = i == selected;
    lines.push_back(ftxui::hbox(
        {styled(ftxui::text(mark.text), mark.style),
         styled(ftxui::text(rest), marked                               ? Style::kMarked
                                   : row.status == CaseStatus::kPending ? Style::kGrey
                                                                        : Style::kPlain)}));
  }
  if (n == 0) lines.push_back(ftxui::text(fitted("no cases", columns)));
  return ftxui::vbox(std::move(lines));
}

Style note_style(CaseStatus status) {
  if (status == CaseStatus::kPassed) return Style::kGreen;
  return status == CaseStatus::kFailed || status == CaseStatus::kError ? Style::kRed
                                                                       : Style::kYellow;
}

// The last `wanted` lines of a case's text, or all when there are fewer. From the end, since a page
// shows the end of what may be very long.
std::vector<Run> text_lines(const BoardCase& shown, const BoardSnapshot& seen, int columns,
                            int64_t wanted) {
  const BoardRow& row = seen.rows[seen.selected];
  struct Part {
    std::string_view text;
    Style style;
  };
  const Part parts[] = {{seen.text.note, note_style(row.status)},
                        {seen.text.content, Style::kPlain},
                        {seen.text.reasoning, Style::kGrey},
                        {shown.question, Style::kCyan}};
  std::vector<Run> all;
  for (const Part& part : parts) {
    if (part.text.empty() || static_cast<int64_t>(all.size()) >= wanted) continue;
    std::vector<Run> lines;
    if (part.text.size() + 4 > kPageTextBytesMax) {
      lines.push_back({"[what was said before is left out]", Style::kYellow});
    }
    for (std::string& text : wrapped(part.text, columns)) {
      lines.push_back({std::move(text), part.style});
    }
    if (!all.empty()) lines.push_back({});
    lines.insert(lines.end(), std::make_move_iterator(all.begin()),
                 std::make_move_iterator(all.end()));
    all = std::move(lines);
  }
  return all;
}

ftxui::Element pane(std::span<const BoardCase> cases, const BoardSnapshot& seen, int columns,
                    int rows, int64_t& scroll) {
  if (cases.empty()) return ftxui::emptyElement();
  const BoardCase& shown = cases[seen.selected];
  const BoardRow& row = seen.rows[seen.selected];
  std::string facts =
      fmt::format("case {} of {}, {}", seen.selected + 1, cases.size(), eval::name_of(row.status));
  if (row.status != CaseStatus::kPending) {
    facts += fmt::format(", {} + {} tokens, {:.1f} s", row.prompt_tokens, row.generated_tokens,
                         row.elapsed_seconds);
  }
  const bool says_source = shown.id.starts_with(shown.source);
  const std::string name =
      one_line((says_source ? "" : shown.source + "/") + shown.id + "  " + shown.title);
  ftxui::Elements lines = {ftxui::text(fitted(name, columns)) | ftxui::bold};
  if (rows >= 4) lines.push_back(ftxui::text(fitted(facts, columns)));
  if (rows >= 8) lines.push_back(ftxui::text(""));
  const auto room = std::max<int64_t>(rows - std::ssize(lines), 0);
  const std::vector<Run> text = text_lines(shown, seen, columns, room + scroll);
  scroll = std::clamp<int64_t>(scroll, 0, std::max<int64_t>(std::ssize(text) - room, 0));
  const int64_t end = std::ssize(text) - scroll;
  for (int64_t i = std::max<int64_t>(end - room, 0); i < end; ++i) {
    lines.push_back(
        styled(ftxui::text(text[static_cast<size_t>(i)].text), text[static_cast<size_t>(i)].style));
  }
  return ftxui::vbox(std::move(lines));
}

// What the run is doing, then the numbers of the case that began last.
ftxui::Element status(const BoardSnapshot& seen, int64_t scroll, int columns) {
  const bool any_ended = seen.totals.running + seen.totals.pending < std::ssize(seen.rows);
  std::string phase = any_ended ? "between cases" : "starting", facts;
  if (seen.newest) {
    const BoardRow& row = seen.rows[*seen.newest];
    const bool reads = row.status == CaseStatus::kPrefill;
    phase = eval::name_of(row.status);
    facts = reads ? fmt::format("  {} of {} tokens", row.prompt_done, row.prompt_tokens)
                  : fmt::format("  {} tokens", row.generated_tokens);
    facts += fmt::format("  {:.1f} t/s  {} left", reads ? seen.prefill_rate : seen.decode_rate,
                         row.budget_left);
    if (seen.totals.running > 1) facts += fmt::format("  {} at once", seen.totals.running);
  }
  if (seen.finished) {
    phase = seen.totals.pending + seen.totals.stopped > 0 ? "ended early, q for the report"
                                                          : "done, q for the report";
  } else if (seen.quitting) {
    phase = "stopping after this step";
  } else if (seen.paused) {
    phase = "paused, p goes on";
  }
  const std::string right = scroll > 0 ? fmt::format(" {} lines below", scroll) : "";
  return line({{phase, Style::kYellow}, {facts, Style::kPlain}}, {right, Style::kGrey}, columns);
}

ftxui::Element keys(const BoardSnapshot& seen, int columns) {
  const std::string pause = seen.paused ? "p go on" : "p pause";
  const std::string text =
      seen.finished
          ? "q report  Up/Down select  PgUp/PgDn scroll"
          : "q quit  " + pause + "  Enter run next  Up/Down select  f follow  PgUp/PgDn scroll";
  return styled(ftxui::text(fitted(text, columns)), Style::kGrey);
}

}  // namespace

size_t page_text_bytes(const View& view, PageSize size) {
  if (view.scroll > 0) return kPageTextBytesMax;
  const int columns = std::clamp(size.columns, 1, kColumnsMax);
  const int rows = std::clamp(size.rows, 1, kRowsMax);
  return std::min(kPageTextBytesMax, static_cast<size_t>(columns * rows) * 4);
}

Page draw_page(std::span<const BoardCase> cases, const BoardSnapshot& seen, const View& view,
               PageSize size) {
  constexpr int kRowsForKeys = 8, kRowsForRule = 14;
  const int columns = std::clamp(size.columns, 1, kColumnsMax);
  const int rows = std::clamp(size.rows, 1, kRowsMax);
  const bool has_keys = rows >= kRowsForKeys, has_rule = rows >= kRowsForRule;
  const int body = std::max(rows - 2 - (has_keys ? 1 : 0) - (has_rule ? 1 : 0), 0);
  const int list_columns = std::clamp(columns * (columns < kWideColumns ? 9 : 8) / 20, 14, 40);
  Page page;
  page.scroll = view.scroll;
  ftxui::Elements all = {title(seen, columns)};
  if (has_rule) all.push_back(ftxui::separator());
  const int pane_columns = columns - list_columns - 3;
  ftxui::Element left = list(cases, seen, std::min(list_columns, columns), body);
  if (pane_columns >= 8) {
    left = ftxui::hbox({left, ftxui::text(" "), ftxui::separator(), ftxui::text(" "),
                        pane(cases, seen, pane_columns, body, page.scroll)});
  }
  if (body > 0) {
    all.push_back(left | ftxui::size(ftxui::HEIGHT, ftxui::EQUAL, body));
  }
  if (rows >= 2) all.push_back(status(seen, page.scroll, columns));
  if (has_keys) all.push_back(keys(seen, columns));

  auto screen =
      ftxui::Screen::Create(ftxui::Dimension::Fixed(columns), ftxui::Dimension::Fixed(rows));
  ftxui::Render(screen, ftxui::vbox(std::move(all)));
  const std::string text = screen.ToString();
  constexpr std::string_view kBetween = "\r\n";
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(kBetween, begin), text.size());
    page.rows.push_back(text.substr(begin, end - begin));
    begin = end + kBetween.size();
  }
  return page;
}

}  // namespace ds4::evaluate
