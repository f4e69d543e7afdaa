#pragma once
// One page of the full-screen mode: what a board looks like on so many columns and rows.
//
//   ds4-eval  12 passed  3 failed  485 left                                 0:12:34
//   ──────────────────────────────────────────────────────────────────────────────
//   ✓ add-001          41 │ add-017  Sums of two numbers
//   ✗ add-002          57 │ case 17 of 500, thinking, 96 + 812 tokens, 12.5 s
//   * add-017         812 │
//   · add-018             │ the question, what the model thinks (grey), what it says
//   thinking  812 tokens  24.1 t/s  15188 left
//   q quit  p pause  Enter run next  Up/Down select  f follow  PgUp/PgDn scroll
//
// The two lines at the edges that hold no facts go first when rows are few. Text of cases and
// models is shown without control characters, and never wider than its column.
//
// A pure function; thread-safe.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "eval/board.h"

namespace ds4::evaluate {

// What the reader chose to look at.
struct View {
  bool follow = true;  // the case that began last is the selected one
  size_t selected = 0;
  int64_t scroll = 0;  // lines of text below the page
};

struct PageSize {
  int columns = 80, rows = 24;
};

// So much of either part of a case's text is looked at when scrolling.
inline constexpr size_t kPageTextBytesMax = size_t{1} << 16;

// How many bytes of text draw_page() needs of a snapshot.
size_t page_text_bytes(const View& view, PageSize size);

struct Page {
  std::vector<std::string> rows;  // with styles, each as wide as the page; as many as the page has
  int64_t scroll = 0;             // the view's, as far as there is text for it
};

// `seen` is the snapshot of `cases` for view.selected.
Page draw_page(std::span<const eval::BoardCase> cases, const eval::BoardSnapshot& seen,
               const View& view, PageSize size);

}  // namespace ds4::evaluate
