// The page of the full-screen mode, rendered at fixed sizes without a terminal.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "full_screen.h"
#include "page.h"
#include "tokenizer/utf8.h"

namespace ds4::evaluate {
namespace {

using eval::Board;
using eval::BoardCase;
using eval::CaseStatus;

constexpr PageSize kSizes[] = {{80, 24}, {40, 10}, {200, 60}};

std::vector<BoardCase> cases_of(int n) {
  std::vector<BoardCase> cases;
  for (int i = 1; i <= n; ++i) {
    cases.push_back({fmt::format("add-{:03}", i), "nano", "Sums", fmt::format("What is {}+1?", i)});
  }
  return cases;
}

// A row as it reads: the styles left out.
std::string plain(const std::string& row) {
  std::string out;
  for (size_t i = 0; i < row.size();) {
    if (row[i] == '\x1b') {
      EXPECT_EQ(row.substr(i, 2), "\x1b[");
      const size_t end = row.find('m', i);
      EXPECT_NE(end, std::string::npos);
      EXPECT_EQ(row.substr(i + 2, end - i - 2).find_first_not_of("0123456789;"), std::string::npos);
      i = end + 1;
    } else {
      out += row[i++];
    }
  }
  return out;
}

// Columns of text without wide characters.
size_t narrow_columns(const std::string& text) {
  size_t n = 0;
  for (const char c : text) n += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return n;
}

std::vector<std::string> rows_of(const Board& board, const View& view, PageSize size) {
  const auto seen = board.snapshot(view.selected, page_text_bytes(view, size));
  std::vector<std::string> rows;
  for (const std::string& row : draw_page(board.cases(), seen, view, size).rows) {
    rows.push_back(plain(row));
  }
  EXPECT_EQ(std::ssize(rows), size.rows);
  return rows;
}

std::string joined(const std::vector<std::string>& rows) {
  std::string all;
  for (const std::string& row : rows) all += row + "\n";
  return all;
}

// Each look at the clock is a tenth of a second later than the one before.
Board::Now slow_clock() {
  return [ticks = 0]() mutable {
    return Board::Clock::time_point(std::chrono::milliseconds(100) * ++ticks);
  };
}

// A run in the middle: one case of each state.
void play(Board& board) {
  board.begin(0, 100, 500);
  board.finish(0, CaseStatus::kPassed, "picked 2, expected 2");
  board.begin(1, 100, 500);
  board.token(1, true, 499, "hm", "");
  board.finish(1, CaseStatus::kFailed, "picked 7, expected 3");
  board.begin(2, 40, 500);
  board.prefill(2, 40);
  for (int i = 0; i < 12; ++i) board.token(2, true, 488, "think ", "");
  board.token(2, false, 487, "", "The answer is 4.");
}

TEST(EvalPage, ShowsTheFactsAtEverySize) {
  for (const PageSize size : kSizes) {
    SCOPED_TRACE(testing::Message() << size.columns << "x" << size.rows);
    Board board(cases_of(5), slow_clock());
    play(board);
    const auto rows = rows_of(board, {.selected = 2}, size);
    for (const std::string& row : rows) {
      EXPECT_EQ(narrow_columns(row), static_cast<size_t>(size.columns)) << row;
    }
    const std::string all = joined(rows);
    for (const char* part :
         {"1 passed", "1 failed", "3 left", "0:00:0", "✓ add-001", "✗ add-002", "* add-003",
          "· add-004", "13 tokens", "487 left", "answer", "q quit", "The answer is 4."}) {
      EXPECT_NE(all.find(part), std::string::npos) << part << "\n" << all;
    }
    EXPECT_EQ(rows[0].find("ds4-eval") != std::string::npos, size.columns >= 60);
  }
}

// What a person would look for first: the state of the run, at the same place.
TEST(EvalPage, SaysWhatTheRunIsDoing) {
  Board board(cases_of(2));
  const auto status = [&] { return rows_of(board, {}, {80, 24})[22]; };
  EXPECT_EQ(status().substr(0, 8), "starting");
  board.begin(0, 1000, 500);
  board.prefill(0, 370);
  EXPECT_NE(status().find("prefill  370 of 1000 tokens"), std::string::npos) << status();
  EXPECT_NE(joined(rows_of(board, {}, {80, 24})).find("37%"), std::string::npos);
  board.set_paused(true);
  EXPECT_EQ(status().substr(0, 17), "paused, p goes on");
  EXPECT_NE(rows_of(board, {}, {80, 24})[0].find("paused 0:00"), std::string::npos);
  board.set_paused(false);
  board.quit();
  EXPECT_EQ(status().substr(0, 24), "stopping after this step");
  board.finish(0, CaseStatus::kStopped, "");
  board.finish_run();
  EXPECT_EQ(status().substr(0, 29), "ended early, q for the report");
}

TEST(EvalPage, SelectedCaseOfManyIsInTheList) {
  Board board(cases_of(500));
  for (const PageSize size : kSizes) {
    for (const size_t selected : {0, 1, 250, 498, 499}) {
      const std::string all = joined(rows_of(board, {.follow = false, .selected = selected}, size));
      EXPECT_NE(all.find(fmt::format("· add-{:03}", selected + 1)), std::string::npos) << all;
      EXPECT_NE(all.find(fmt::format("case {} of", selected + 1)), std::string::npos) << all;
    }
    const std::string all = joined(rows_of(board, {.selected = 499}, size));
    EXPECT_EQ(all.find("add-001"), std::string::npos);
  }
}

TEST(EvalPage, NoCasesAndTinyWindowsAreDrawnToo) {
  Board none({});
  Board some(cases_of(3));
  play(some);
  EXPECT_NE(joined(rows_of(none, {}, {80, 24})).find("no cases"), std::string::npos);
  for (int columns = 1; columns < 60; columns += columns < 30 ? 1 : 7) {
    for (int rows = 1; rows < 20; ++rows) {
      for (const Board* board : {&none, &some}) {
        for (const std::string& row :
             rows_of(*board, {.selected = 2, .scroll = 3}, {columns, rows})) {
          ASSERT_EQ(narrow_columns(row), static_cast<size_t>(columns)) << rows << row;
        }
      }
    }
  }
  const auto seen = some.snapshot(0);
  EXPECT_EQ(draw_page(some.cases(), seen, {}, {65535, 65535}).rows.size(), 300u);
  EXPECT_EQ(draw_page(some.cases(), seen, {}, {0, -1}).rows.size(), 1u);
}

// Wide characters take two columns: no row may become wider than the page, and none is cut in the
// middle of a character.
TEST(EvalPage, WideTextKeepsItsColumns) {
  auto cases = cases_of(1);
  cases[0].id = "日本語日本語日本語日本語日本語日本語日本語日本語日本語";
  cases[0].question = "質問";
  Board board(cases);
  board.begin(0, 10, 500);
  for (int i = 0; i < 100; ++i) board.token(0, false, 400, "", "漢字 and 🙂 e\u0301, ");
  for (const PageSize size : kSizes) {
    const auto rows = rows_of(board, {}, size);
    for (const std::string& row : rows) {
      EXPECT_FALSE(utf8_repair(row)) << row;
      size_t columns = 0;
      for (int64_t at = 0; at < std::ssize(row);) {
        const Utf8Step step = utf8_step(row, at);
        const std::string character = row.substr(at, step.n_bytes);
        const bool wide =
            character >= "\u2E80" && (character < "\uA4D0" || character >= "\U0001F300");
        columns += character == "\u0301" ? 0 : wide ? 2 : 1;
        at += step.n_bytes;
      }
      EXPECT_EQ(columns, static_cast<size_t>(size.columns)) << row;
    }
    EXPECT_NE(joined(rows).find("漢字 and"), std::string::npos);
    EXPECT_NE(joined(rows).find("…"), std::string::npos);  // of the id
  }
}

// Whatever a model or a file of cases says, nothing of it steers the terminal.
TEST(EvalPage, ControlCharactersDoNotReachTheTerminal) {
  auto cases = cases_of(1);
  const std::string hostile =
      "\x1b]0;owned\x07 \x1b[2J\x1b[31mred\x9b?25h \u009b1m\r "
      "over\b\b\x7f\u202Eabc\u2028\ttab\n\nend";
  cases[0] = {hostile, hostile, hostile, hostile};
  for (const bool thinking : {true, false}) {
    Board board(cases);
    board.begin(0, 10, 500);
    board.token(0, thinking, 400, thinking ? hostile : "", thinking ? "" : hostile);
    board.finish(0, CaseStatus::kError, hostile);
    for (const PageSize size : kSizes) {
      const std::string all = joined(rows_of(board, {}, size));  // plain() checks the escapes
      for (int64_t at = 0; at < std::ssize(all);) {
        const Utf8Step step = utf8_step(all, at);
        ASSERT_EQ(step.status, Utf8Status::kValid);
        const std::string_view bytes = std::string_view(all).substr(at, step.n_bytes);
        const auto c = static_cast<unsigned char>(bytes[0]);
        EXPECT_TRUE(c == '\n' || (c >= 0x20 && c != 0x7F)) << static_cast<int>(c);
        EXPECT_FALSE(bytes >= "\u0080" && bytes <= "\u009F");
        EXPECT_NE(bytes, "\u202E");
        EXPECT_NE(bytes, "\u2028");
        at += step.n_bytes;
      }
      EXPECT_NE(all.find("end"), std::string::npos);
    }
  }
}

TEST(EvalPage, ScrollsThroughAllOfTheText) {
  Board board(cases_of(1));
  board.begin(0, 10, 9000);
  for (int i = 0; i < 300; ++i)
    board.token(0, i < 150, 400, i < 150 ? fmt::format("r{}\n", i) : "",
                i < 150 ? "" : fmt::format("c{}\n", i));
  const PageSize size{80, 24};
  const auto at = [&](int64_t scroll) { return joined(rows_of(board, {.scroll = scroll}, size)); };
  EXPECT_NE(at(0).find("c299"), std::string::npos);
  EXPECT_EQ(at(0).find("lines below"), std::string::npos);
  EXPECT_NE(at(100).find("100 lines below"), std::string::npos);
  EXPECT_NE(at(100).find("c199"), std::string::npos);
  EXPECT_NE(at(152).find("r148"), std::string::npos);
  const View far{.scroll = 100000};
  const Page top =
      draw_page(board.cases(), board.snapshot(0, page_text_bytes(far, size)), far, size);
  EXPECT_LT(top.scroll, 310);
  EXPECT_NE(at(top.scroll).find("What is 1+1?"), std::string::npos);
  EXPECT_NE(at(top.scroll).find("r0 "), std::string::npos);
}

TEST(EvalPage, LongTextIsLookedAtFromItsEnd) {
  Board board(cases_of(1));
  board.begin(0, 10, 9000);
  board.token(0, true, 400, std::string(300000, 'x') + " last words", "");
  for (const int64_t scroll : {0, 5, 1000000}) {
    const View view{.scroll = scroll};
    const auto rows = rows_of(board, view, {80, 24});
    EXPECT_EQ(joined(rows).find("last words") != std::string::npos, scroll == 0);
    EXPECT_EQ(joined(rows).find("[what was said before is left out]") != std::string::npos,
              scroll == 1000000);
  }
}

TEST(EvalKeys, AreReadFromWhatTerminalsSend) {
  using enum Key;
  KeyReader reader;
  EXPECT_EQ(reader.push("qp\r\n f"),
            (std::vector<Key>{kQuit, kPause, kEnter, kEnter, kPause, kFollow}));
  EXPECT_EQ(reader.push("\x1b[A\x1bOB\x1b[5~\x1b[6~\x03\x1a\x0c"),
            (std::vector<Key>{kUp, kDown, kPageUp, kPageDown, kInterrupt, kSuspend, kRedraw}));
  // Keys without a meaning, and pastes, do nothing or what their letters do.
  EXPECT_EQ(reader.push("xyz\x1b[1;5A\x1b[200~\x1b[H\x1bq\xe6\x97\xa5"), std::vector<Key>{});
  std::vector<Key> pieces;
  for (const char c : std::string("\x1b[Bk")) {
    for (const Key key : reader.push(std::string(1, c))) pieces.push_back(key);
  }
  EXPECT_EQ(pieces, (std::vector<Key>{kDown, kUp}));
  EXPECT_EQ(reader.push("\x1b[" + std::string(1000, '1')), std::vector<Key>{});
  EXPECT_EQ(reader.push("q"), std::vector<Key>{kQuit});
}

}  // namespace
}  // namespace ds4::evaluate
