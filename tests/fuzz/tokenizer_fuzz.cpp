// Arbitrary bytes as text for Nano's vocabulary, in every mode of the tokenizer, and as a
// tokenizer.json. The first byte chooses where the text is cut into pieces.
//
// Held: no text mode makes a control token; decoding gives the text back (with U+FFFD where it was
// not UTF-8); cuts change nothing; an added token is found only where all its bytes are scaffold.
#include <string>
#include <vector>

#include "base/check.h"
#include "tests/fuzz/input.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

namespace ds4 {
namespace {

using fuzz::Input;

const Tokenizer& nano() {
  static const Tokenizer made = [] {
    auto vocab = load_hf_vocab(DS4_SOURCE_DIR "/models/nano/tokenizer.json");
    DS4_CHECK(vocab.has_value());
    auto tokenizer = Tokenizer::create(std::move(*vocab));
    DS4_CHECK(tokenizer.has_value());
    return std::move(*tokenizer);
  }();
  return made;
}

std::string repaired(std::string_view text) {
  return utf8_repair(text).value_or(std::string(text));
}

// The text in pieces of 1 to 8 bytes, or whole when `seed` is 0.
std::vector<std::string> cut(std::string_view text, uint32_t seed) {
  std::vector<std::string> pieces;
  while (!text.empty()) {
    const size_t n = seed == 0 ? text.size() : 1 + (seed >> 16) % 8;
    seed = seed * 1664525u + (seed == 0 ? 0u : 1013904223u);
    pieces.emplace_back(text.substr(0, n));
    text.remove_prefix(pieces.back().size());
  }
  return pieces;
}

void check_pretokenizer(std::string_view text) {
  static const PreTokenizer made = [] {
    auto created = PreTokenizer::create();
    DS4_CHECK(created.has_value());
    return std::move(*created);
  }();
  const std::string valid = repaired(text);
  size_t pos = 0;
  made.for_each_piece(valid, [&](std::string_view piece) {
    DS4_CHECK(piece.data() == valid.data() + pos);
    DS4_CHECK(!piece.empty());
    DS4_CHECK(!utf8_repair(piece));
    pos += piece.size();
  });
  DS4_CHECK(pos == valid.size());
}

void check_stream(std::string_view text, uint32_t seed) {
  Utf8Stream stream;
  std::string joined;
  for (const std::string& piece : cut(text, seed)) {
    const std::string out = stream.push(piece);
    DS4_CHECK(!utf8_repair(out));
    DS4_CHECK(stream.pending_bytes() <= 3);
    joined += out;
  }
  joined += stream.flush();
  DS4_CHECK(joined == repaired(text));
}

// Pieces alternate between content and scaffold as the bits of `kinds` say.
void check_mixed_segments(std::string_view text, uint32_t seed, uint32_t kinds) {
  std::vector<Segment> segments;
  std::string trust;  // one letter a byte
  for (const std::string& piece : cut(text, seed)) {
    const bool scaffold = (kinds >> segments.size() % 32 & 1) != 0;
    segments.push_back(scaffold ? Segment::scaffold(piece) : Segment::content(piece));
    trust.append(piece.size(), scaffold ? 's' : 'c');
  }
  const std::vector<Token> tokens = nano().encode_segments(segments);
  DS4_CHECK(nano().decode(tokens) == repaired(text));
  if (utf8_repair(text)) return;  // positions below hold for text that is valid as it is
  size_t pos = 0;
  for (const Token token : tokens) {
    const size_t n = nano().bytes_of(token).size();
    if (nano().is_control(token)) {
      DS4_CHECK(trust.substr(pos, n).find('c') == std::string::npos);
    }
    pos += n;
  }
}

void check_text(std::string_view text, uint32_t seed) {
  const std::string valid = repaired(text);
  const std::vector<Token> as_text = nano().encode_text(text);
  for (const Token token : as_text) DS4_CHECK(!nano().is_control(token));
  DS4_CHECK(nano().decode(as_text) == valid);
  const std::vector<Token> as_rendered = nano().encode_rendered(text);
  DS4_CHECK(nano().decode(as_rendered) == valid);

  std::vector<Segment> content, scaffold;
  for (const std::string& piece : cut(text, seed)) {
    content.push_back(Segment::content(piece));
    scaffold.push_back(Segment::scaffold(piece));
  }
  DS4_CHECK(nano().encode_segments(content) == as_text);
  DS4_CHECK(nano().encode_segments(scaffold) == as_rendered);
  check_mixed_segments(text, seed, seed * 2654435761u);
  check_pretokenizer(text);
  check_stream(text, seed);
}

// Ids that no vocabulary promised.
void check_ids(Input input) {
  std::vector<Token> tokens;
  while (!input.empty() && tokens.size() < 4096) tokens.push_back(input.take<Token>());
  const std::string decoded = nano().decode(tokens);
  size_t n_bytes = 0;
  for (const Token token : tokens) {
    n_bytes += nano().bytes_of(token).size();
    DS4_CHECK(nano().contains(token) || nano().spelling(token).empty());
  }
  DS4_CHECK(decoded.size() == n_bytes);
}

void check_vocabulary(std::string_view json) {
  auto vocab = vocab_from_hf_json(json);
  if (!vocab) return;
  const auto tokenizer = Tokenizer::create(std::move(*vocab));
  if (!tokenizer) return;
  const std::string text = "Hello <think> 世界 12345\n";
  DS4_CHECK(tokenizer->decode(tokenizer->encode_text(text)) == text);
}

}  // namespace
}  // namespace ds4

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ds4;
  Input input(data, size);
  if (!input.empty() && input.rest()[0] == '{') {
    check_vocabulary(input.rest());
    return 0;
  }
  const uint32_t seed = input.take<uint8_t>() * 2246822519u;
  check_text(input.rest(), seed);
  check_ids(input);
  return 0;
}
