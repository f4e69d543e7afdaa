#pragma once
// Text from files, models and clients on its way to a terminal. Thread-safe.
#include <string>
#include <string_view>

namespace ds4 {

// `text` with control characters other than newline and tab as U+FFFD.
std::string without_controls(std::string_view text);

}  // namespace ds4
