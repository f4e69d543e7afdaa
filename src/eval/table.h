#pragma once
// Tab-separated text: the manifest of continuations and score files.
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ds4::eval {

struct TableRow {
  int64_t line = 0;                       // from 1
  std::vector<std::string_view> columns;  // into the text
};

inline constexpr int64_t kTableRowsMax = 100000;

// Lines that are neither blank nor comments (`#` at the start). Errors: kInvalidArgument beyond
// kTableRowsMax.
Result<std::vector<TableRow>> table_rows(std::string_view text);

}  // namespace ds4::eval
