#include "eval/text.h"

#include <fmt/format.h>

#include <charconv>

namespace ds4::eval {
namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

}  // namespace

std::string shortened(std::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return std::string(text);
  while (bytes_max > 0 && is_continuation(text[bytes_max])) --bytes_max;
  return std::string(text.substr(0, bytes_max)) + "…";
}

std::string shown(std::string_view text) {
  constexpr size_t kBytesMax = 160;
  return text.empty() ? "nothing" : escape_line(shortened(text, kBytesMax));
}

std::string escape_line(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

Result<std::string> unescape_line(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    const char kind = i + 1 < text.size() ? text[i + 1] : '\0';
    const size_t plain = std::string_view("nrt\\").find(kind);
    if (plain != std::string_view::npos && kind != '\0') {
      out += "\n\r\t\\"[plain];
      ++i;
      continue;
    }
    unsigned byte = 0;
    const char* const hex = text.data() + i + 2;
    if (kind != 'x' || i + 4 > text.size() ||
        std::from_chars(hex, hex + 2, byte, 16).ptr != hex + 2) {
      return fail(
          ErrorCode::kCorrupt,
          fmt::format("expected \\n, \\r, \\t, \\\\ or \\xNN, found '{}'", text.substr(i, 4)));
    }
    out += static_cast<char>(byte);
    i += 3;
  }
  return out;
}

}  // namespace ds4::eval
