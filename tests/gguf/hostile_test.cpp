// Damaged and crafted bytes: every cut and every flipped bit gives a value or an error, never a
// crash, and no file makes the reader take more memory than a small multiple of its own size.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <random>

#include "gguf/file.h"
#include "tests/gguf/builder.h"

namespace ds4::gguf {
namespace {

// Reads everything a file offers, so that a bad length cannot hide in a value nobody looked at.
void read_all(const File& file) {
  for (const KeyValue& kv : file.metadata()) {
    (void)kv.value.as_int();
    (void)kv.value.as_float();
    (void)kv.value.as_bool();
    (void)kv.value.as_string();
    (void)kv.value.as_ints();
    (void)kv.value.as_floats();
    (void)kv.value.as_strings();
    (void)kv.value.type_name();
  }
  unsigned sum = 0;
  for (const TensorInfo& t : file.tensors()) {
    for (int64_t i = 0; i < t.bytes.value_or(0); ++i) sum += std::to_integer<unsigned>(t.data[i]);
  }
  volatile unsigned sink = sum;
  (void)sink;
}

// A copy of exactly n bytes on the heap, so that a sanitizer sees the first byte read past the end.
Result<File> parse_exact(std::vector<std::byte>& storage, const std::vector<std::byte>& all,
                         size_t n) {
  storage.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n));
  storage.shrink_to_fit();
  return File::parse(storage, "cut.gguf");
}

TEST(GgufHostile, EveryCutIsRefusedAndCalledTruncated) {
  const Bytes whole = good_file();
  const size_t last_data = whole.data.size() - 224 + 210;
  std::vector<std::byte> storage;
  for (size_t n = 0; n < last_data; ++n) {
    const auto file = parse_exact(storage, whole.data, n);
    ASSERT_FALSE(file) << "cut at " << n;
    EXPECT_TRUE(contains(file.error().message, "truncated") ||
                contains(file.error().message, "cannot fit"))
        << "cut at " << n << ": " << file.error().message;
  }
  // What is missing from here on is only padding, which nobody reads.
  for (size_t n = last_data; n <= whole.data.size(); ++n) {
    EXPECT_TRUE(parse_exact(storage, whole.data, n)) << "cut at " << n;
  }
}

TEST(GgufHostile, FlippedBitsNeverCrash) {
  const Bytes whole = good_file();
  std::mt19937 random(7);
  size_t accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> bytes = whole.data;
    const int n_flips = 1 + static_cast<int>(random() % 3);
    for (int k = 0; k < n_flips; ++k) {
      bytes[random() % bytes.size()] ^= static_cast<std::byte>(1u << (random() % 8));
    }
    if (const auto file = File::parse(bytes, "flipped.gguf")) {
      ++accepted;
      read_all(*file);
    }
  }
  // Most flips land in tensor data or in text and change no structure.
  EXPECT_GT(accepted, 2000u);
  EXPECT_LT(accepted, 20000u);
}

int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

// Arrays of nearly nothing, as many as the file holds: the memory taken follows the bytes given.
TEST(GgufHostile, CountsWithoutBytesBehindThemCostNothing) {
  const int64_t before = peak_rss_bytes();
  for (const uint64_t count : {uint64_t{1} << 40, uint64_t{1} << 60, ~uint64_t{0}}) {
    EXPECT_FALSE(parse(Bytes{}.header(count, 0).zeros(136)));
    EXPECT_FALSE(parse(Bytes{}.header(0, count).zeros(136)));
    EXPECT_FALSE(parse(Bytes{}.header(0, 1).str("k").u32(8).u64(count).zeros(100)));
    for (const uint32_t element : {0u, 5u, 8u, 9u, 10u}) {
      EXPECT_FALSE(parse(Bytes{}.header(0, 1).str("k").u32(9).u32(element).u64(count).zeros(100)));
    }
    EXPECT_FALSE(parse(Bytes{}.header(1, 0).tensor("t", {count}, 0, 0).zeros(100)));
    EXPECT_FALSE(parse(Bytes{}.header(1, 0).u64(count).zeros(100)));
  }
  EXPECT_LT(peak_rss_bytes() - before, 16 << 20);
}

}  // namespace
}  // namespace ds4::gguf
