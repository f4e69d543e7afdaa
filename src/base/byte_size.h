#pragma once
// Amounts of memory as people write and read them.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ds4 {

// "8G", "512M", "1.5g", "64K", "2T" (powers of 1024; a following "iB" or "B" may stand there) or a
// plain number of bytes; above 0 and below 2^62.
// Errors: kInvalidArgument with these forms.
Result<int64_t> parse_byte_size(std::string_view text);

// The same, and "0".
Result<int64_t> parse_size_or_none(std::string_view text);

// "5.20 GiB", "57.3 MiB", "812 bytes".
std::string format_byte_size(int64_t bytes);

}  // namespace ds4
