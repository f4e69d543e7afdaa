#pragma once
// What a vocabulary is before it becomes a Tokenizer: the three arrays of a GGUF file, which a
// Hugging Face tokenizer.json can be turned into.
//
// Base tokens are spelled in the printable alphabet of byte-level BPE: each byte has a stand-in
// code point (bytes 33-126, 161-172 and 174-255 stand for themselves; the other 68, ascending, are
// U+0100, U+0101, ...), so that space is spelled U+0120. Added tokens are spelled literally.
//
// Source: GGUF keys tokenizer.ggml.{tokens,merges,token_type}; Hugging Face "tokenizers" JSON.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/token.h"

namespace ds4 {

// Values of VocabData::token_types that matter here; a base token has type 1.
inline constexpr int32_t kTokenTypeNormal = 1;
inline constexpr int32_t kTokenTypeControl = 3;
inline constexpr int32_t kTokenTypeUserDefined = 4;

struct VocabData {
  std::vector<std::string> tokens;   // by id
  std::vector<std::string> merges;   // "LEFT RIGHT", by rank
  std::vector<int32_t> token_types;  // by id
};

// SHA-256 in lower-case hex over, for each entry: u64le index, u64le byte length, the bytes as
// stored.
struct VocabFingerprints {
  std::string tokens;
  std::string merges;
  bool operator==(const VocabFingerprints&) const = default;
};

// The vocabulary of the published DeepSeek-V4 Flash and Pro.
inline constexpr std::string_view kV4TokensSha256 =
    "c92251fc634ff01cc6767d2e3ce1d368e72b5f02b647983d4410eb0c46693fa3";
inline constexpr std::string_view kV4MergesSha256 =
    "8100a9693dc10b8aad79abbe20b172545ff5e1e6051e0705cc91e73b88e3751f";

VocabFingerprints fingerprints(const VocabData& vocab);

// UTF-8 of the stand-in of `byte`.
std::string byte_stand_in(uint8_t byte);

// The bytes that a base token spells; nothing when a character is no stand-in.
std::optional<std::string> bytes_of_spelling(std::string_view spelling);

// Reads the Hugging Face "tokenizers" format: model.vocab, model.merges (strings or pairs) and
// added_tokens. Ids must run from 0 without a gap. Errors: kCorrupt, with the member at fault.
Result<VocabData> vocab_from_hf_json(std::string_view json);

// The same from a file. Errors: those of opening it, and kCorrupt above 64 MiB.
Result<VocabData> load_hf_vocab(const std::string& path);

// Builds the full V4 vocabulary from the two files of `dir` (models/vocab in this project):
// deepseek_v3_tokenizer.json.gz, and v4_added_tokens.json.gz with {id, content, gguf_token_type}.
// Errors: those of opening, kCorrupt for a damaged file or one whose fingerprints are not V4's.
Result<VocabData> load_v4_vocab(const std::string& dir);

// The same from the bytes of the two files.
Result<VocabData> v4_vocab_from_gzip(std::span<const std::byte> base,
                                     std::span<const std::byte> added);

// Says whether a GGUF's tokenizer.ggml.model and .pre name the splitting that this room implements.
// An unknown `pre` is accepted when the fingerprints are V4's. Errors: kUnsupported.
Result<void> check_gguf_tokenizer(std::string_view model, std::string_view pre,
                                  const VocabFingerprints& found);

}  // namespace ds4
