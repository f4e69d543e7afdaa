#pragma once
// GGUF bytes made by hand, field by field, so that a test can write what the Layout never would:
// counts that lie, types that do not exist, offsets that overlap.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/file.h"

namespace ds4::gguf {

struct Bytes {
  std::vector<std::byte> data;

  template <typename T>
  Bytes& put(T value) {
    return raw({reinterpret_cast<const char*>(&value), sizeof(T)});
  }
  Bytes& u32(uint32_t v) { return put(v); }
  Bytes& u64(uint64_t v) { return put(v); }
  // Not inlined: GCC 12 otherwise sees an overflow in the vector's growth that is not there.
  [[gnu::noinline]] Bytes& raw(std::string_view text) {
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    data.insert(data.end(), bytes, bytes + text.size());
    return *this;
  }
  Bytes& str(std::string_view text) { return u64(text.size()).raw(text); }
  Bytes& zeros(size_t n) { return raw(std::string(n, '\0')); }
  Bytes& pad(size_t alignment = 32) {
    return zeros((alignment - data.size() % alignment) % alignment);
  }

  // The pieces of a file.
  Bytes& header(uint64_t n_tensors, uint64_t n_keys) {
    return raw("GGUF").u32(3).u64(n_tensors).u64(n_keys);
  }
  Bytes& key_u32(std::string_view key, uint32_t v) { return str(key).u32(4).u32(v); }
  Bytes& tensor(std::string_view name, std::vector<uint64_t> dims, uint32_t type, uint64_t offset) {
    str(name).u32(static_cast<uint32_t>(dims.size()));
    for (const uint64_t d : dims) u64(d);
    return u32(type).u64(offset);
  }
};

inline Result<File> parse(const Bytes& bytes) { return File::parse(bytes.data, "test.gguf"); }

// The message of a file that must be refused.
inline std::string refusal(const Bytes& bytes) {
  const auto file = parse(bytes);
  EXPECT_FALSE(file.has_value());
  return file ? std::string() : file.error().message;
}

inline bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

#define EXPECT_MENTIONS(text, part)              \
  EXPECT_TRUE(::ds4::gguf::contains(text, part)) \
      << "message: " << (text) << "\nexpected: " << (part)

// A small file that is right in every way: three keys, three tensors of different types.
inline Bytes good_file() {
  Bytes b;
  b.header(3, 3);
  b.str("general.architecture").u32(8).str("deepseek4");
  b.key_u32("deepseek4.block_count", 2);
  b.str("tokenizer.ggml.tokens").u32(9).u32(8).u64(3).str("a").str("bc").str("");
  b.tensor("one.weight", {8, 2}, 0, 0);         // 64 bytes of F32
  b.tensor("two.weight", {32, 3}, 8, 64);       // 102 bytes of Q8_0, padded to 128
  b.tensor("three.weight", {3, 5, 7}, 1, 192);  // 210 bytes of F16, padded to 224
  b.pad();
  b.zeros(64 + 128 + 224);
  return b;
}

}  // namespace ds4::gguf
