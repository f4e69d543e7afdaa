#pragma once
// Text of any kind on one line of a list or a trace.
#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ds4::eval {

// At most `bytes_max` bytes of `text`, cut between characters, and an ellipsis for the rest.
std::string shortened(std::string_view text, size_t bytes_max);

// With \n \r \t \\ and \xNN for what a line cannot hold, and back. Errors of the way back: kCorrupt
// for an unknown escape.
std::string escape_line(std::string_view text);
Result<std::string> unescape_line(std::string_view text);

// Both, for lists: "nothing" for empty text.
std::string shown(std::string_view text);

}  // namespace ds4::eval
