// The V4 vocabulary out of public parts: V3's tokenizer.json plus the table of V4's added tokens.
#include <fmt/format.h>
#include <zlib.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/mapped_file.h"
#include "tokenizer/vocab.h"

namespace ds4 {
namespace {

constexpr int64_t kUnpackedBytesMax = int64_t{32} << 20;  // the larger file unpacks to 8 MB

// The content of a gzip file. `bytes_max` bounds what a hostile file can make us allocate.
Result<std::string> gunzip(std::span<const std::byte> packed, int64_t bytes_max) {
  if (static_cast<int64_t>(packed.size()) > bytes_max) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("expected at most {} bytes, found {}", bytes_max, packed.size()));
  }
  z_stream stream = {};
  constexpr int kGzipWindow = 15 + 16;  // largest window; + 16: gzip framing
  if (inflateInit2(&stream, kGzipWindow) != Z_OK) {
    return fail(ErrorCode::kOutOfMemory, "no memory to unpack");
  }
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());

  std::string unpacked;
  int status = Z_OK;
  while (status == Z_OK && static_cast<int64_t>(unpacked.size()) <= bytes_max) {
    constexpr size_t kStepBytes = size_t{1} << 20;
    unpacked.resize(unpacked.size() + kStepBytes);
    stream.next_out = reinterpret_cast<Bytef*>(unpacked.data() + unpacked.size() - kStepBytes);
    stream.avail_out = static_cast<uInt>(kStepBytes);
    status = inflate(&stream, Z_NO_FLUSH);
    unpacked.resize(unpacked.size() - stream.avail_out);
  }
  const std::string reason = stream.msg != nullptr ? stream.msg : "the file is truncated";
  inflateEnd(&stream);
  if (status == Z_STREAM_END) return unpacked;
  if (status == Z_OK) {
    return fail(ErrorCode::kCorrupt, fmt::format("unpacks to more than {} bytes", bytes_max));
  }
  return fail(ErrorCode::kCorrupt, "not a whole gzip file: " + reason);
}

Result<void> add_v4_tokens(VocabData& vocab, const std::string& json) {
  const auto table = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!table.is_array()) return fail(ErrorCode::kCorrupt, "expected an array of added tokens");
  for (const auto& entry : table) {
    const auto field = [&](const char* name) {
      const auto found = entry.find(name);
      return entry.is_object() && found != entry.end() ? *found : nlohmann::json();
    };
    const auto id = field("id");
    const auto content = field("content");
    const auto type = field("gguf_token_type");
    if (!id.is_number_unsigned() || !content.is_string() || !type.is_number_unsigned()) {
      return fail(ErrorCode::kCorrupt,
                  "expected objects with id, content and gguf_token_type, found " + entry.dump());
    }
    // The table is in the order of ids, so each is known already or the next one.
    const size_t at = id.get<size_t>();
    if (at > vocab.tokens.size()) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("id {} follows {} tokens", at, vocab.tokens.size()));
    }
    if (at == vocab.tokens.size()) {
      vocab.tokens.emplace_back();
      vocab.token_types.emplace_back();
    }
    vocab.tokens[at] = content.get<std::string>();
    vocab.token_types[at] = type.get<int32_t>();
  }
  return {};
}

// The two parts unpacked, with their names for messages.
struct Part {
  std::string name;
  std::string json;
};

Result<Part> unpack(std::string name, std::span<const std::byte> packed) {
  auto json = gunzip(packed, kUnpackedBytesMax);
  if (!json) return fail_within(name, std::move(json.error()));
  return Part{std::move(name), std::move(*json)};
}

Result<VocabData> v4_vocab(const std::string& whole_name, const Part& base, const Part& added) {
  auto vocab = vocab_from_hf_json(base.json);
  if (!vocab) return fail_within(base.name, std::move(vocab.error()));
  if (auto done = add_v4_tokens(*vocab, added.json); !done) {
    return fail_within(added.name, std::move(done.error()));
  }
  const VocabFingerprints found = fingerprints(*vocab);
  if (found.tokens != kV4TokensSha256 || found.merges != kV4MergesSha256) {
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("{}: not DeepSeek-V4's vocabulary: tokens {} (expected {}), merges {} "
                    "(expected {})",
                    whole_name, found.tokens, kV4TokensSha256, found.merges, kV4MergesSha256));
  }
  return vocab;
}

}  // namespace

Result<VocabData> load_v4_vocab(const std::string& dir) {
  const std::string base_path = dir + "/deepseek_v3_tokenizer.json.gz";
  const std::string added_path = dir + "/v4_added_tokens.json.gz";
  DS4_TRY(const auto base_file, MappedFile::open(base_path));
  DS4_TRY(const Part base, unpack(base_path, base_file.bytes()));
  DS4_TRY(const auto added_file, MappedFile::open(added_path));
  DS4_TRY(const Part added, unpack(added_path, added_file.bytes()));
  return v4_vocab(dir, base, added);
}

Result<VocabData> v4_vocab_from_gzip(std::span<const std::byte> base,
                                     std::span<const std::byte> added) {
  DS4_TRY(const Part base_part, unpack("base tokens", base));
  DS4_TRY(const Part added_part, unpack("added tokens", added));
  return v4_vocab("vocabulary", base_part, added_part);
}

}  // namespace ds4
