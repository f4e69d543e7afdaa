#include "tokenizer/pretokenizer.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <cstdint>

#include "base/check.h"

namespace ds4 {
namespace {

// Unicode's White_Space property, spelled out: PCRE2's \s with UCP also takes U+180E, which stopped
// being white space in Unicode 6.3.
#define DS4_SPACE \
  R"(\x09-\x0D\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})"

constexpr const char* kPatterns[] = {
    R"(\p{N}{1,3})",
    R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)",
    // Possessive (++) where what follows could never match a character given back: it changes no
    // match and keeps a piece of megabytes from being walked twice.
    R"([!-/:-@\[-`{-~][A-Za-z]++)"
    R"(|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]++)"
    R"(|\x20?[\p{P}\p{S}]++[\r\n]*+)"
    "|[" DS4_SPACE R"(]*[\r\n]+)"
    "|[" DS4_SPACE "]+(?![^" DS4_SPACE
    "])"
    "|[" DS4_SPACE "]++",
};
#undef DS4_SPACE

}  // namespace

void PreTokenizer::Free::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }
void PreTokenizer::Free::operator()(pcre2_real_match_data_8* data) const {
  pcre2_match_data_free(data);
}
void PreTokenizer::Free::operator()(pcre2_real_match_context_8* context) const {
  pcre2_match_context_free(context);
}

Result<PreTokenizer> PreTokenizer::create() {
  PreTokenizer made;
  for (size_t i = 0; i < made.passes_.size(); ++i) {
    int error = 0;
    PCRE2_SIZE where = 0;
    made.passes_[i].reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(kPatterns[i]),
                                        PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &error,
                                        &where, nullptr));
    if (made.passes_[i] == nullptr) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("pre-tokenizer pass {}: PCRE2 error {} at byte {} of the pattern; a "
                              "library built with Unicode support is needed",
                              i + 1, error, where));
    }
    // Where the library has no JIT for this machine the interpreter gives the same matches, slower.
    pcre2_jit_compile(made.passes_[i].get(), PCRE2_JIT_COMPLETE);
  }
  // The default limits stop a match after ten million steps, fewer than a run of white space may
  // take. Every alternative is linear in the run it looks at, so no limit is needed.
  made.limits_.reset(pcre2_match_context_create(nullptr));
  DS4_CHECK(made.limits_ != nullptr);
  pcre2_set_match_limit(made.limits_.get(), UINT32_MAX);
  pcre2_set_depth_limit(made.limits_.get(), UINT32_MAX);
  pcre2_set_heap_limit(made.limits_.get(), UINT32_MAX);
  return made;
}

PreTokenizer::MatchData PreTokenizer::make_match_data() {
  MatchData data(pcre2_match_data_create(1, nullptr));
  DS4_CHECK(data != nullptr);
  return data;
}

PreTokenizer::Span PreTokenizer::next_match(int pass, std::string_view text, int64_t from,
                                            pcre2_real_match_data_8& scratch) const {
  const int64_t n = static_cast<int64_t>(text.size());
  // NO_UTF_CHECK: the caller promised valid UTF-8; checking here would walk the whole piece per
  // match.
  const int rc = pcre2_match(passes_[pass].get(), reinterpret_cast<PCRE2_SPTR>(text.data()), n,
                             from, PCRE2_NO_UTF_CHECK, &scratch, limits_.get());
  if (rc == PCRE2_ERROR_NOMATCH) return {n, n};
  DS4_CHECK(rc > 0, "the pre-tokenizer patterns cannot fail on valid UTF-8");
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(&scratch);
  return {static_cast<int64_t>(bounds[0]), static_cast<int64_t>(bounds[1])};
}

}  // namespace ds4
