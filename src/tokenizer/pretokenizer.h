#pragma once
// Splits text into the pieces that BPE works on. Three passes, each of which cuts every piece of
// the pass before it into matches and the stretches between matches; a pass sees only its own
// piece, so its look-ahead takes the piece's end for the end of the text:
//
//   1  numbers       groups of at most three, from the left
//   2  CJK           runs of common Han, Hiragana and Katakana
//   3  words         punctuation + letters | letters and marks | punctuation | white space
//
// Source: the pre_tokenizer of DeepSeek-V3's tokenizer.json, unchanged in V4.
#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/result.h"

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;

namespace ds4 {

// Constant after construction; const access is thread-safe.
class PreTokenizer {
 public:
  // Compiles the three patterns. Errors: kUnsupported when the PCRE2 library lacks UTF support.
  static Result<PreTokenizer> create();

  // Calls piece(std::string_view) for each piece, left to right; together they are `text`, which
  // must be valid UTF-8. Pieces point into `text`.
  template <typename Piece>
  void for_each_piece(std::string_view text, Piece&& piece) const {
    const MatchData scratch = make_match_data();
    cut(0, text, *scratch, [&](std::string_view numbers) {
      cut(1, numbers, *scratch, [&](std::string_view cjk) { cut(2, cjk, *scratch, piece); });
    });
  }

 private:
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
    void operator()(pcre2_real_match_data_8* data) const;
    void operator()(pcre2_real_match_context_8* context) const;
  };
  using Code = std::unique_ptr<pcre2_real_code_8, Free>;
  using MatchData = std::unique_ptr<pcre2_real_match_data_8, Free>;
  using MatchContext = std::unique_ptr<pcre2_real_match_context_8, Free>;

  struct Span {
    int64_t begin = 0;
    int64_t end = 0;
  };

  static MatchData make_match_data();

  // The first match of pass `pass` in text at or after `from`; {size, size} when there is none.
  Span next_match(int pass, std::string_view text, int64_t from,
                  pcre2_real_match_data_8& scratch) const;

  template <typename Part>
  void cut(int pass, std::string_view text, pcre2_real_match_data_8& scratch, Part&& part) const {
    const int64_t n = static_cast<int64_t>(text.size());
    for (int64_t pos = 0; pos < n;) {
      const Span match = next_match(pass, text, pos, scratch);
      if (match.begin > pos) part(text.substr(pos, match.begin - pos));
      if (match.end > match.begin) part(text.substr(match.begin, match.end - match.begin));
      pos = match.end;
    }
  }

  std::array<Code, 3> passes_;
  MatchContext limits_;
};

}  // namespace ds4
