#pragma once
// Text made fit for a column of a page: harmless to the terminal, and of a known width in the
// measure that FTXUI draws with. Pure functions, thread-safe.
#include <string>
#include <string_view>
#include <vector>

namespace ds4::evaluate {

// `text` as it may be shown: no control characters but newlines, no marks that turn the direction
// of writing, tabs as spaces.
std::string shown_text(std::string_view text);

// The same in one line.
std::string one_line(std::string_view text);

// Columns that one line of shown text takes.
int columns_of(const std::string& text);

// One line of shown text in exactly so many columns: padded, or cut with an ellipsis.
std::string fitted(const std::string& text, int columns, bool align_right = false);

// Any text as lines to be shown, of at most so many columns, cut at spaces where that is possible.
// Empty lines at its end are left out: they would only push up what can be read.
std::vector<std::string> wrapped(std::string_view text, int columns);

}  // namespace ds4::evaluate
