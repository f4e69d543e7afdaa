#include "gguf/foreign.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <string_view>

namespace ds4::gguf {
namespace {

bool starts_with(std::span<const std::byte> bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

}  // namespace

std::string describe_foreign(std::span<const std::byte> bytes) {
  if (starts_with(bytes, "version https://git-lfs")) {
    return "this is a Git LFS pointer, a small text that stands for the model; fetch the file "
           "itself "
           "(git lfs pull)";
  }
  const auto head = bytes.first(std::min<size_t>(bytes.size(), 512));
  const auto printable = [](std::byte b) {
    const auto c = static_cast<unsigned char>(b);
    return c >= 0x20 || c == '\n' || c == '\r' || c == '\t';
  };
  const auto blank = [](std::byte b) { return std::isspace(static_cast<unsigned char>(b)) != 0; };
  const auto first = std::find_if_not(head.begin(), head.end(), blank);
  const bool text = std::all_of(head.begin(), head.end(), printable);
  if (text && first != head.end() && *first == std::byte{'<'}) {
    return "this is a web page (HTML or XML), probably an error page saved in place of the model";
  }
  if (text) return "this is a text file";
  return "";
}

}  // namespace ds4::gguf
