#include "tokenizer/vocab.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/mapped_file.h"
#include "tokenizer/utf8.h"

namespace ds4 {
namespace {

constexpr int64_t kJsonBytesMax = int64_t{64} << 20;  // the largest known, V3's, has 8 MB
constexpr int64_t kTokensMax = int64_t{1} << 20;

constexpr bool stands_for_itself(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

// Code point of each byte's stand-in, and the way back (-1: no stand-in).
struct ByteAlphabet {
  std::array<int16_t, 256> code_point{};
  std::array<int16_t, 324> byte{};
};

constexpr ByteAlphabet make_alphabet() {
  ByteAlphabet alphabet;
  for (auto& byte : alphabet.byte) byte = -1;
  int16_t next = 0x100;
  for (int16_t b = 0; b < 256; ++b) {
    alphabet.code_point[b] = stands_for_itself(b) ? b : next++;
    alphabet.byte[alphabet.code_point[b]] = b;
  }
  return alphabet;
}

constexpr ByteAlphabet kAlphabet = make_alphabet();
static_assert(kAlphabet.code_point[' '] == 0x120 && kAlphabet.code_point['\n'] == 0x10A);
static_assert(kAlphabet.code_point[173] == 323, "the last of the 68 moved bytes");

std::string sha256_of(const std::vector<std::string>& entries) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  DS4_CHECK(context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1);
  std::string record;
  for (uint64_t i = 0; i < entries.size(); ++i) {
    record.clear();
    for (const uint64_t number : {i, uint64_t{entries[i].size()}}) {
      for (int shift = 0; shift < 64; shift += 8) record += static_cast<char>(number >> shift);
    }
    record += entries[i];
    DS4_CHECK(EVP_DigestUpdate(context.get(), record.data(), record.size()) == 1);
  }
  std::array<unsigned char, 32> digest;
  DS4_CHECK(EVP_DigestFinal_ex(context.get(), digest.data(), nullptr) == 1);
  std::string hex;
  for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

// Puts `text` at `id`, which grows the vocabulary when it is new.
Result<void> place(VocabData& vocab, std::string_view where, const nlohmann::json& id,
                   const std::string& text, int32_t type) {
  if (!id.is_number_integer() || id < 0 || id >= kTokensMax) {
    return fail(ErrorCode::kCorrupt, fmt::format("{}: id of '{}': expected 0..{}, found {}", where,
                                                 text, kTokensMax - 1, id.dump()));
  }
  if (text.empty()) {
    return fail(ErrorCode::kCorrupt, fmt::format("{}: token {} has no spelling", where, id.dump()));
  }
  const size_t at = id.get<size_t>();
  if (at >= vocab.tokens.size()) {
    vocab.tokens.resize(at + 1);
    vocab.token_types.resize(at + 1, kTokenTypeNormal);
  }
  if (!vocab.tokens[at].empty() && vocab.tokens[at] != text) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("{}: id {} is both '{}' and '{}'", where, at, vocab.tokens[at], text));
  }
  vocab.tokens[at] = text;
  vocab.token_types[at] = type;
  return {};
}

Result<void> read_merges(VocabData& vocab, const nlohmann::json& merges) {
  vocab.merges.reserve(merges.size());
  for (const auto& merge : merges) {
    if (merge.is_string()) {
      vocab.merges.push_back(merge.get<std::string>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      vocab.merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
    } else {
      return fail(
          ErrorCode::kCorrupt,
          fmt::format("model.merges[{}]: expected \"LEFT RIGHT\" or [LEFT, RIGHT], found {}",
                      vocab.merges.size(), merge.type_name()));
    }
  }
  return {};
}

Result<void> read_added_tokens(VocabData& vocab, const nlohmann::json& added) {
  for (const auto& entry : added) {
    const auto id = entry.find("id");
    const auto content = entry.find("content");
    if (!entry.is_object() || id == entry.end() || content == entry.end() ||
        !content->is_string()) {
      return fail(ErrorCode::kCorrupt, "added_tokens: expected objects with id and content");
    }
    const auto special = entry.find("special");
    const bool control = special != entry.end() && special->is_boolean() && special->get<bool>();
    DS4_TRY_VOID(place(vocab, "added_tokens", *id, content->get<std::string>(),
                       control ? kTokenTypeControl : kTokenTypeUserDefined));
  }
  return {};
}

}  // namespace

VocabFingerprints fingerprints(const VocabData& vocab) {
  return {sha256_of(vocab.tokens), sha256_of(vocab.merges)};
}

std::string byte_stand_in(uint8_t byte) {
  const int code_point = kAlphabet.code_point[byte];
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xC0 | code_point >> 6), static_cast<char>(0x80 | (code_point & 0x3F))};
}

std::optional<std::string> bytes_of_spelling(std::string_view spelling) {
  std::string bytes;
  for (int64_t pos = 0; pos < static_cast<int64_t>(spelling.size());) {
    const Utf8Step step = utf8_step(spelling, pos);
    if (step.status != Utf8Status::kValid || step.n_bytes > 2) return std::nullopt;
    int code_point = static_cast<uint8_t>(spelling[pos]);
    if (step.n_bytes == 2) {
      code_point = (code_point & 0x1F) << 6 | (static_cast<uint8_t>(spelling[pos + 1]) & 0x3F);
    }
    if (code_point >= static_cast<int>(kAlphabet.byte.size()) || kAlphabet.byte[code_point] < 0) {
      return std::nullopt;
    }
    bytes += static_cast<char>(kAlphabet.byte[code_point]);
    pos += step.n_bytes;
  }
  return bytes;
}

Result<VocabData> vocab_from_hf_json(std::string_view json) {
  if (static_cast<int64_t>(json.size()) > kJsonBytesMax) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("tokenizer JSON: expected at most {} bytes, found {}", kJsonBytesMax,
                            json.size()));
  }
  // Not ordered_json: its objects find a key by walking all of them, quadratic for a vocabulary.
  const auto root = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) {
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("tokenizer JSON: expected an object, found {} ({} bytes)",
                    root.is_discarded() ? "text that is not JSON" : root.type_name(), json.size()));
  }
  const auto model = root.find("model");
  if (model == root.end() || !model->is_object()) {
    return fail(ErrorCode::kCorrupt, "tokenizer JSON: no object 'model'");
  }
  const auto type = model->find("type");
  if (type != model->end() && *type != "BPE") {
    return fail(ErrorCode::kUnsupported,
                fmt::format("model.type: expected \"BPE\", found {}", type->dump()));
  }
  const auto entries = model->find("vocab");
  const auto merges = model->find("merges");
  if (entries == model->end() || !entries->is_object() || merges == model->end() ||
      !merges->is_array()) {
    return fail(ErrorCode::kCorrupt, "model: expected an object 'vocab' and an array 'merges'");
  }

  VocabData vocab;
  for (const auto& [text, id] : entries->items()) {
    DS4_TRY_VOID(place(vocab, "model.vocab", id, text, kTokenTypeNormal));
  }
  DS4_TRY_VOID(read_merges(vocab, *merges));
  const auto added = root.find("added_tokens");
  if (added != root.end() && added->is_array()) DS4_TRY_VOID(read_added_tokens(vocab, *added));
  for (size_t id = 0; id < vocab.tokens.size(); ++id) {
    if (vocab.tokens[id].empty()) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tokenizer JSON: {} ids, but none is {}", vocab.tokens.size(), id));
    }
  }
  return vocab;
}

Result<VocabData> load_hf_vocab(const std::string& path) {
  DS4_TRY(const auto file, MappedFile::open(path));
  const auto bytes = file.bytes();
  auto vocab = vocab_from_hf_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!vocab) return fail_within(path, std::move(vocab.error()));
  return vocab;
}

Result<void> check_gguf_tokenizer(std::string_view model, std::string_view pre,
                                  const VocabFingerprints& found) {
  if (model != "gpt2") {
    return fail(ErrorCode::kUnsupported,
                fmt::format("tokenizer.ggml.model: expected 'gpt2', found '{}'", model));
  }
  const bool known = pre == "joyai-llm" || pre == "deepseek-v3";
  if (!known &&
      found != VocabFingerprints{std::string(kV4TokensSha256), std::string(kV4MergesSha256)}) {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("tokenizer.ggml.pre: expected 'joyai-llm' or 'deepseek-v3', found '{}', and "
                    "the tokens are not DeepSeek-V4's",
                    pre));
  }
  return {};
}

}  // namespace ds4
