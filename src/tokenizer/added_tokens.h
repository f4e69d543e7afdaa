#pragma once
// Finds added tokens (control tokens and the like) spelled out in trusted text. The spellings are
// kept sorted, and a match narrows a range of them byte by byte: a trie without the nodes.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/token.h"

namespace ds4 {

struct AddedTokenMatch {
  Token token = -1;
  int64_t begin = 0;  // byte offsets in the text
  int64_t end = 0;
};

// Constant after construction; const access is thread-safe.
class AddedTokens {
 public:
  AddedTokens() = default;

  // Spellings are not empty and differ from each other (checked).
  explicit AddedTokens(std::vector<std::pair<std::string, Token>> spellings);

  // The leftmost added token in text at or after `from`, the longest where several start there.
  std::optional<AddedTokenMatch> find(std::string_view text, int64_t from) const;

  int64_t size() const { return static_cast<int64_t>(sorted_.size()); }

 private:
  std::optional<AddedTokenMatch> match_at(std::string_view text, int64_t begin) const;

  std::vector<std::pair<std::string, Token>> sorted_;
  std::string first_bytes_;  // each byte that starts a spelling, once
};

}  // namespace ds4
