#pragma once
// What a file that lacks the GGUF magic seems to be. A failed download is usually a web page or a
// Git LFS pointer, and saying so saves the reader an hour.
#include <cstddef>
#include <span>
#include <string>

namespace ds4::gguf {

// A sentence about text, pages and pointers, from the first 512 bytes; empty for anything else.
std::string describe_foreign(std::span<const std::byte> bytes);

}  // namespace ds4::gguf
