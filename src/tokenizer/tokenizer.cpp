#include "tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "base/check.h"
#include "tokenizer/utf8.h"

namespace ds4 {

// Checks a vocabulary and fills a Tokenizer from it. Problems are collected, not met one at a time:
// whoever made the file then sees all of them at once.
class TokenizerBuilder {
 public:
  Result<Tokenizer> build(VocabData vocab);

 private:
  // The first few of one kind of problem, and how many there are.
  struct Problem {
    std::string_view what;
    std::vector<std::string> examples = {};
    int64_t n = 0;

    void add(std::string example) {
      constexpr size_t kExamplesMax = 8;
      if (examples.size() < kExamplesMax) examples.push_back(std::move(example));
      ++n;
    }
  };

  void index_spellings();
  void add_merges(const std::vector<std::string>& merges);
  void add_bytes();
  void find_added_tokens(const std::vector<int32_t>& types);
  void find_special_tokens();

  Tokenizer made_;
  std::vector<bool> is_base_;  // a byte or the product of a merge
  Problem not_utf8_{"tokens that are not UTF-8"};
  Problem duplicated_{"tokens listed twice"};
  Problem no_byte_{"bytes without a token"};
  Problem bad_merges_{"merges of unknown tokens, or repeated"};
  Problem no_special_{"required special tokens missing"};
};

void TokenizerBuilder::index_spellings() {
  made_.by_spelling_.reserve(made_.spellings_.size());
  for (size_t id = 0; id < made_.spellings_.size(); ++id) {
    const std::string& text = made_.spellings_[id];
    // Found in scaffold, part of a character would cut a whole one in two.
    if (utf8_repair(text)) not_utf8_.add(fmt::format("id {}", id));
    const auto [at, fresh] = made_.by_spelling_.emplace(text, static_cast<Token>(id));
    if (!fresh) duplicated_.add(fmt::format("'{}' ({} and {})", text, at->second, id));
  }
}

void TokenizerBuilder::add_bytes() {
  for (int byte = 0; byte < 256; ++byte) {
    const auto token = made_.find(byte_stand_in(static_cast<uint8_t>(byte)));
    if (!token) {
      no_byte_.add(fmt::format("0x{:02X}", byte));
      continue;
    }
    made_.byte_tokens_[byte] = *token;
    is_base_[*token] = true;
  }
}

void TokenizerBuilder::add_merges(const std::vector<std::string>& merges) {
  made_.merges_ = MergeTable(static_cast<int64_t>(merges.size()));
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const size_t gap = merge.find(' ');
    std::optional<Token> left, right, product;
    if (gap != std::string_view::npos) {
      left = made_.find(merge.substr(0, gap));
      right =
          made_.find(merge.substr(gap + 1));  // with a second space in it, no token has this name
      product = made_.find(std::string(merge.substr(0, gap)).append(merge.substr(gap + 1)));
    }
    if (!left || !right || !product ||
        !made_.merges_.insert(*left, *right, {static_cast<uint32_t>(rank), *product})) {
      bad_merges_.add(fmt::format("'{}' (rank {})", merge, rank));
      continue;
    }
    is_base_[*product] = true;
  }
}

// An added token is one whose type says so, or one that no merge can reach: files of other
// exporters are not always right about types.
void TokenizerBuilder::find_added_tokens(const std::vector<int32_t>& types) {
  const size_t n = made_.spellings_.size();
  made_.bytes_.resize(n);
  made_.is_added_.resize(n);
  std::vector<std::pair<std::string, Token>> added;
  for (size_t id = 0; id < n; ++id) {
    const std::string& text = made_.spellings_[id];
    const bool typed = types[id] == kTokenTypeControl || types[id] == kTokenTypeUserDefined;
    auto bytes = bytes_of_spelling(text);
    made_.is_added_[id] = typed || !is_base_[id] || !bytes;
    made_.bytes_[id] = made_.is_added_[id] ? text : *std::move(bytes);
    if (made_.is_added_[id] && !text.empty() && made_.find(text) == static_cast<Token>(id)) {
      added.emplace_back(text, static_cast<Token>(id));
    }
  }
  made_.added_ = AddedTokens(std::move(added));
}

void TokenizerBuilder::find_special_tokens() {
  SpecialTokens& special = made_.special_;
  const std::pair<std::string_view, Token*> required[] = {
      {spelling::kBos, &special.bos},
      {spelling::kEos, &special.eos},
      {spelling::kUser, &special.user},
      {spelling::kAssistant, &special.assistant},
      {spelling::kThinkOpen, &special.think_open},
      {spelling::kThinkClose, &special.think_close},
      {spelling::kDsml, &special.dsml},
  };
  for (const auto& [text, id] : required) {
    const auto found = made_.find(text);
    if (!found) no_special_.add(std::string(text));
    *id = found.value_or(-1);
  }
  special.pad = made_.find(spelling::kPad);
  special.latest_reminder = made_.find(spelling::kLatestReminder);
}

Result<Tokenizer> TokenizerBuilder::build(VocabData vocab) {
  if (vocab.tokens.size() != vocab.token_types.size() ||
      vocab.tokens.size() > std::numeric_limits<int32_t>::max()) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("vocabulary: expected as many token types as tokens, found {} and {}",
                            vocab.token_types.size(), vocab.tokens.size()));
  }
  made_.fingerprints_ = ds4::fingerprints(vocab);
  made_.spellings_ = std::move(vocab.tokens);
  is_base_.resize(made_.spellings_.size());
  index_spellings();
  add_bytes();
  add_merges(vocab.merges);
  find_added_tokens(vocab.token_types);
  find_special_tokens();

  std::string message;
  for (const Problem* problem : {&not_utf8_, &duplicated_, &no_byte_, &bad_merges_, &no_special_}) {
    if (problem->n == 0) continue;
    message += fmt::format("{}{}: {}", message.empty() ? "" : "; ", problem->what,
                           fmt::join(problem->examples, ", "));
    const int64_t n_more = problem->n - static_cast<int64_t>(problem->examples.size());
    if (n_more > 0) message += fmt::format(" and {} more", n_more);
  }
  if (!message.empty()) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("vocabulary of {} tokens: {}", made_.spellings_.size(), message));
  }
  DS4_TRY(made_.pretokenizer_, PreTokenizer::create());
  return std::move(made_);
}

Result<Tokenizer> Tokenizer::create(VocabData vocab) {
  return TokenizerBuilder().build(std::move(vocab));
}

// Encodes runs of ordinary text into one list of tokens. Words repeat, so the tokens of a short
// piece are copied from where the same piece was last encoded: a table of positions in the output,
// which needs no lock because it lives for one call, and no bound because it never grows. Its slots
// are overwritten, so text made to collide costs a repeated merge and nothing else.
class Tokenizer::TextEncoder {
 public:
  TextEncoder(const Tokenizer& tokenizer, int64_t text_bytes)
      : tokenizer_(tokenizer),
        bpe_(tokenizer.merges_),
        seen_(std::bit_ceil(static_cast<size_t>(std::clamp<int64_t>(text_bytes / 8, 16, 8192)))) {}

  void add_text(std::string_view text) {
    DS4_CHECK(static_cast<int64_t>(text.size()) <= kTextBytesMax);
    const auto repaired = utf8_repair(text);
    tokenizer_.pretokenizer_.for_each_piece(repaired ? *repaired : text,
                                            [this](std::string_view piece) { add_piece(piece); });
  }

  void add_token(Token token) { tokens_.push_back(token); }

  std::vector<Token> take() { return std::move(tokens_); }

 private:
  static constexpr size_t kSeenBytesMax = 24;

  struct Seen {
    std::array<char, kSeenBytesMax> bytes;
    uint8_t n_bytes = 0;  // 0: empty slot; a piece never is
    uint8_t n_tokens = 0;
    size_t at = 0;  // in tokens_
  };

  void add_piece(std::string_view piece) {
    if (piece.size() > kSeenBytesMax) return merge(piece);
    Seen& seen = seen_[std::hash<std::string_view>()(piece) & (seen_.size() - 1)];
    if (piece == std::string_view(seen.bytes.data(), seen.n_bytes)) {
      for (size_t i = 0; i < seen.n_tokens; ++i) tokens_.push_back(tokens_[seen.at + i]);
      return;
    }
    seen.at = tokens_.size();
    merge(piece);
    seen.n_tokens = static_cast<uint8_t>(tokens_.size() - seen.at);
    seen.n_bytes = static_cast<uint8_t>(piece.size());
    std::copy(piece.begin(), piece.end(), seen.bytes.begin());
  }

  void merge(std::string_view piece) {
    std::vector<Token>& symbols = bpe_.symbols();
    symbols.clear();
    for (const char c : piece) symbols.push_back(tokenizer_.byte_tokens_[static_cast<uint8_t>(c)]);
    bpe_.encode(tokens_);
  }

  const Tokenizer& tokenizer_;
  BpeEncoder bpe_;
  std::vector<Seen> seen_;
  std::vector<Token> tokens_;
};

std::vector<Token> Tokenizer::encode_text(std::string_view text) const {
  TextEncoder encoder(*this, static_cast<int64_t>(text.size()));
  encoder.add_text(text);
  return encoder.take();
}

std::vector<Token> Tokenizer::encode_rendered(std::string_view text) const {
  TextEncoder encoder(*this, static_cast<int64_t>(text.size()));
  int64_t pos = 0;
  while (const auto match = added_.find(text, pos)) {
    encoder.add_text(text.substr(pos, match->begin - pos));
    encoder.add_token(match->token);
    pos = match->end;
  }
  encoder.add_text(text.substr(pos));
  return encoder.take();
}

std::vector<Token> Tokenizer::encode_segments(std::span<const Segment> segments) const {
  int64_t n_bytes = 0;
  for (const Segment& segment : segments) n_bytes += static_cast<int64_t>(segment.text.size());
  TextEncoder encoder(*this, n_bytes);

  std::string run;  // ordinary text since the last token, across segments
  const auto end_run = [&](Token token) {
    encoder.add_text(run);
    encoder.add_token(token);
    run.clear();
  };
  // Neighbouring scaffold is searched as one text, and any content in between ends it: a match can
  // then neither contain nor straddle a content byte.
  std::string scaffold;
  const auto end_scaffold = [&] {
    int64_t pos = 0;
    while (const auto match = added_.find(scaffold, pos)) {
      run.append(scaffold, pos, match->begin - pos);
      end_run(match->token);
      pos = match->end;
    }
    run.append(scaffold, pos);
    scaffold.clear();
  };

  for (const Segment& segment : segments) {
    if (segment.kind == SegmentKind::kScaffold) {
      scaffold += segment.text;
      continue;
    }
    end_scaffold();
    if (segment.kind == SegmentKind::kContent) {
      run += segment.text;
    } else {
      DS4_CHECK(contains(segment.token));
      end_run(segment.token);
    }
  }
  end_scaffold();
  encoder.add_text(run);
  return encoder.take();
}

std::string_view Tokenizer::bytes_of(Token token) const {
  return contains(token) ? std::string_view(bytes_[token]) : std::string_view();
}

std::string Tokenizer::decode(std::span<const Token> tokens) const {
  std::string bytes;
  for (const Token token : tokens) bytes += bytes_of(token);
  return bytes;
}

std::string_view Tokenizer::spelling(Token token) const {
  return contains(token) ? std::string_view(spellings_[token]) : std::string_view();
}

std::optional<Token> Tokenizer::find(std::string_view spelling) const {
  const auto found = by_spelling_.find(spelling);
  if (found == by_spelling_.end()) return std::nullopt;
  return found->second;
}

}  // namespace ds4
