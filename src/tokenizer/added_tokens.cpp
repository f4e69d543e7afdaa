#include "tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ds4 {

AddedTokens::AddedTokens(std::vector<std::pair<std::string, Token>> spellings)
    : sorted_(std::move(spellings)) {
  std::sort(sorted_.begin(), sorted_.end());
  for (size_t i = 0; i < sorted_.size(); ++i) {
    const std::string& text = sorted_[i].first;
    DS4_CHECK(!text.empty() && (i == 0 || sorted_[i - 1].first != text));
    if (first_bytes_.empty() || first_bytes_.back() != text[0]) first_bytes_ += text[0];
  }
}

std::optional<AddedTokenMatch> AddedTokens::match_at(std::string_view text, int64_t begin) const {
  auto low = sorted_.begin();
  auto high = sorted_.end();
  std::optional<AddedTokenMatch> longest;
  for (size_t depth = 0; begin + depth < text.size() && low != high; ++depth) {
    // Everything in [low, high) agrees with the text so far and is longer than `depth`.
    const auto byte_at = [depth](const std::pair<std::string, Token>& entry) {
      return static_cast<uint8_t>(entry.first[depth]);
    };
    const uint8_t byte = static_cast<uint8_t>(text[begin + depth]);
    low = std::partition_point(low, high, [&](const auto& e) { return byte_at(e) < byte; });
    high = std::partition_point(low, high, [&](const auto& e) { return byte_at(e) == byte; });
    if (low != high && low->first.size() == depth + 1) {
      longest = AddedTokenMatch{low->second, begin, begin + static_cast<int64_t>(depth) + 1};
      ++low;
    }
  }
  return longest;
}

std::optional<AddedTokenMatch> AddedTokens::find(std::string_view text, int64_t from) const {
  for (size_t pos = text.find_first_of(first_bytes_, from); pos != std::string_view::npos;
       pos = text.find_first_of(first_bytes_, pos + 1)) {
    if (const auto match = match_at(text, static_cast<int64_t>(pos))) return match;
  }
  return std::nullopt;
}

}  // namespace ds4
