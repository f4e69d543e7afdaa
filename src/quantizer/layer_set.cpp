#include "quantizer/layer_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace ds4 {
namespace {

std::optional<int64_t> layer_number(std::string_view text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < 0) return std::nullopt;
  return value;
}

}  // namespace

LayerSet LayerSet::range(int64_t first, int64_t last) {
  LayerSet set;
  if (first <= last) set.ranges_.emplace_back(first, last);
  return set;
}

Result<LayerSet> LayerSet::parse(std::string_view text) {
  LayerSet set;
  for (std::string_view rest = text;;) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view part = rest.substr(0, comma);
    const size_t dash = std::min(part.find('-'), part.size());
    const auto first = layer_number(part.substr(0, dash));
    const auto last = dash == part.size() ? first : layer_number(part.substr(dash + 1));
    if (!first || !last || *last < *first) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("layers: expected a list like 37-42 or 0-2,40, found '{}'", text));
    }
    set.ranges_.emplace_back(*first, *last);
    if (comma == rest.size()) return set;
    rest.remove_prefix(comma + 1);
  }
}

Result<void> LayerSet::check(int64_t n_layers) const {
  for (const auto& [first, last] : ranges_) {
    if (last < n_layers) continue;
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("layers: expected 0 .. {}, found {}", n_layers - 1, last));
  }
  return {};
}

bool LayerSet::contains(int64_t layer) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [layer](const auto& range) {
    return range.first <= layer && layer <= range.second;
  });
}

std::string LayerSet::to_string() const {
  std::string text;
  for (const auto& [first, last] : ranges_) {
    if (!text.empty()) text += ',';
    text += first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
  }
  return text;
}

}  // namespace ds4
