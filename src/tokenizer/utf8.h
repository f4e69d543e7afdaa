#pragma once
// UTF-8 as this project treats it at its borders: text that enters is made valid, bytes that leave
// are cut only between characters. Both follow one rule: each maximal invalid subsequence (a lead
// byte and the valid continuation bytes after it, or a single stray byte) becomes one U+FFFD.
//
// Source: The Unicode Standard, section 3.9, table 3-7 and "substitution of maximal subparts".
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ds4 {

inline constexpr std::string_view kReplacementChar = "\xEF\xBF\xBD";  // U+FFFD

enum class Utf8Status {
  kValid,       // a whole character
  kInvalid,     // bytes that no continuation can make valid
  kIncomplete,  // the text ends inside what may still become a character
};

struct Utf8Step {
  Utf8Status status = Utf8Status::kInvalid;
  int64_t n_bytes = 0;  // 1..4; of the invalid or incomplete subsequence when it is one
};

// Looks at the character that starts at `pos`, which must be inside `text`.
Utf8Step utf8_step(std::string_view text, int64_t pos);

// `text` with U+FFFD for each maximal invalid subsequence, or nothing when it is valid as it is
// (the common case, which then costs no copy).
std::optional<std::string> utf8_repair(std::string_view text);

// Turns token bytes into text that never ends inside a character. Keeps at most 3 bytes back.
// Single-thread.
class Utf8Stream {
 public:
  // The text that `bytes` completes; may be empty.
  std::string push(std::string_view bytes);

  // What was kept back, as one U+FFFD; empty when nothing was. The stream is then as new.
  std::string flush();

  int64_t pending_bytes() const { return static_cast<int64_t>(pending_.size()); }

 private:
  std::string pending_;
};

}  // namespace ds4
