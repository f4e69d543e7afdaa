#pragma once
// Text to token ids and back, for any vocabulary of the DeepSeek-V4 family (129,280 entries, or
// Nano's 4,096): byte-level BPE after DeepSeek's pre-tokenizer.
//
// Text comes in two trusts. What a user, a tool, a file or a page wrote is *content*: it never
// becomes a control token, whatever it spells. What the chat template wrote is *scaffold*: the
// added tokens spelled in it become ids. encode_segments() takes a prompt with both and is what
// serves requests.
//
// Constant after construction; const access is thread-safe. BOS is the renderer's business: nothing
// here adds it. Text is at most kTextBytesMax bytes per call (checked; requests are bounded
// earlier).
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer/token.h"
#include "tokenizer/vocab.h"

namespace ds4 {

enum class SegmentKind {
  kToken,     // exactly this id
  kScaffold,  // trusted text: added tokens spelled in it become ids
  kContent,   // untrusted text: ordinary tokens only
};

struct Segment {
  SegmentKind kind = SegmentKind::kContent;
  Token token = -1;  // kToken only
  std::string text;  // the others

  static Segment control(Token id) { return {SegmentKind::kToken, id, {}}; }
  static Segment scaffold(std::string text) {
    return {SegmentKind::kScaffold, -1, std::move(text)};
  }
  static Segment content(std::string text) { return {SegmentKind::kContent, -1, std::move(text)}; }

  bool operator==(const Segment&) const = default;
};

class Tokenizer {
 public:
  static constexpr int64_t kTextBytesMax = int64_t{1} << 30;

  // Errors: kCorrupt with everything that is wrong in one message: array sizes, tokens that are not
  // UTF-8, duplicated tokens, bytes without a token, merges of unknown tokens, and all required
  // special tokens that are missing.
  static Result<Tokenizer> create(VocabData vocab);

  // Text mode: `text` is content. Each maximal invalid UTF-8 subsequence counts as U+FFFD.
  std::vector<Token> encode_text(std::string_view text) const;

  // Rendered mode: `text` is scaffold, all of it. For templates, calibration and test prompts.
  std::vector<Token> encode_rendered(std::string_view text) const;

  // Segment mode. Neighbouring text is encoded as one, so the ids are those of the joined text; an
  // added token is recognised only where all of its bytes are scaffold.
  std::vector<Token> encode_segments(std::span<const Segment> segments) const;

  // The bytes a token stands for; not always whole characters (see Utf8Stream). Empty for an id
  // outside the vocabulary. Valid as long as the tokenizer.
  std::string_view bytes_of(Token token) const;

  // bytes_of() of each, joined.
  std::string decode(std::span<const Token> tokens) const;

  // As stored in the vocabulary: stand-ins for base tokens. Empty for an id outside the vocabulary.
  std::string_view spelling(Token token) const;

  // The token with this stored spelling.
  std::optional<Token> find(std::string_view spelling) const;

  // True for added tokens: those that text mode never produces.
  bool is_control(Token token) const { return contains(token) && is_added_[token]; }

  bool contains(Token token) const { return token >= 0 && token < size(); }
  int64_t size() const { return static_cast<int64_t>(spellings_.size()); }
  const SpecialTokens& special() const { return special_; }
  const VocabFingerprints& fingerprints() const { return fingerprints_; }

 private:
  class TextEncoder;

  Tokenizer() = default;

  std::vector<std::string> spellings_;
  std::unordered_map<std::string_view, Token> by_spelling_;  // keys point into spellings_
  std::vector<std::string> bytes_;
  std::vector<bool> is_added_;
  std::array<Token, 256> byte_tokens_ = {};
  MergeTable merges_;
  AddedTokens added_;
  PreTokenizer pretokenizer_;
  SpecialTokens special_;
  VocabFingerprints fingerprints_;

  friend class TokenizerBuilder;
};

}  // namespace ds4
