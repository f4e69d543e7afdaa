#include "base/byte_size.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace ds4 {
namespace {

constexpr double kMax = 0x1p62;

// Bytes of the unit that `text` is; 0 when it is none.
double unit_bytes(std::string_view text) {
  if (text.empty() || text == "B" || text == "b") return 1;
  const std::string_view rest = text.substr(1);
  if (!rest.empty() && rest != "iB" && rest != "B" && rest != "ib" && rest != "b") return 0;
  switch (text[0]) {
    case 'K':
    case 'k':
      return 0x1p10;
    case 'M':
    case 'm':
      return 0x1p20;
    case 'G':
    case 'g':
      return 0x1p30;
    case 'T':
    case 't':
      return 0x1p40;
    default:
      return 0;
  }
}

}  // namespace

Result<int64_t> parse_byte_size(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (error == std::errc()) {
    const double bytes =
        value * unit_bytes(std::string_view(next, static_cast<size_t>(end - next)));
    if (bytes >= 1 && bytes < kMax) return static_cast<int64_t>(bytes);  // false for NaN as well
  }
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("expected a size such as 8G, 512M, 1.5G or a number of bytes, found '{}'", text));
}

Result<int64_t> parse_size_or_none(std::string_view text) {
  if (text == "0") return 0;
  return parse_byte_size(text);
}

std::string format_byte_size(int64_t bytes) {
  const double value = static_cast<double>(bytes);
  if (value >= 0x1p30) return fmt::format("{:.2f} GiB", value / 0x1p30);
  if (value >= 0x1p20) return fmt::format("{:.1f} MiB", value / 0x1p20);
  return fmt::format("{} bytes", bytes);
}

}  // namespace ds4
