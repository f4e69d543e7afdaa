#pragma once
// Text that the user names: a prompt, a file for /read, a text to score.
#include <cstdint>
#include <string>

#include "base/result.h"

namespace ds4::cli {

inline constexpr int64_t kInputBytesMax = int64_t{64} << 20;

// All of `path`; "-" is standard input. Pipes and devices are read until they end. Errors:
// kNotFound, kIo, kInvalidArgument beyond kInputBytesMax.
Result<std::string> read_input(const std::string& path);

// All of a regular file, for a session that must not hang or end: FIFOs, devices and folders are
// refused before they are read. Errors as above.
Result<std::string> read_regular_file(const std::string& path);

}  // namespace ds4::cli
