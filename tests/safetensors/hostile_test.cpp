// Damaged forms of a real checkpoint: Nano's second shard, cut, with flipped bits, with absurd
// numbers in its header. It is mapped once, private to this process.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cctype>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "safetensors/header.h"

namespace ds4::safetensors {
namespace {

class HostileShard : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const int fd = ::open(DS4_SOURCE_DIR "/models/nano/model-00002-of-00002.safetensors", O_RDONLY);
    ASSERT_GE(fd, 0);
    const off_t n = ::lseek(fd, 0, SEEK_END);
    void* mapped =
        ::mmap(nullptr, static_cast<size_t>(n), PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    ::close(fd);
    ASSERT_NE(mapped, MAP_FAILED);
    bytes_ = {static_cast<std::byte*>(mapped), static_cast<size_t>(n)};
    uint64_t header = 0;
    std::memcpy(&header, bytes_.data(), sizeof header);
    data_start_ = 8 + static_cast<size_t>(header);
  }
  static void TearDownTestSuite() { ::munmap(bytes_.data(), bytes_.size()); }

  static Result<std::vector<TensorInfo>> parse(std::span<const std::byte> bytes) {
    return parse_file(bytes, "shard.safetensors");
  }
  // What is accepted must lie in the file.
  static void expect_inside(const std::vector<TensorInfo>& tensors) {
    for (const TensorInfo& t : tensors) {
      ASSERT_GE(t.data, bytes_.data());
      ASSERT_LE(t.bytes, bytes_.data() + bytes_.size() - t.data);
      for (const int64_t dim : t.shape) ASSERT_GE(dim, 0);
    }
  }

  static inline std::span<std::byte> bytes_;
  static inline size_t data_start_ = 0;
};

// At each tensor's ends and at 500 other places.
TEST_F(HostileShard, CutsAreRefusedAndCalledTruncated) {
  const auto tensors = parse(bytes_);
  ASSERT_TRUE(tensors) << tensors.error().message;
  ASSERT_GT(tensors->size(), 100u);
  std::vector<size_t> cuts = {0, 1, 7, 8, 9, data_start_ - 1, data_start_};
  for (const TensorInfo& t : *tensors) {
    cuts.push_back(static_cast<size_t>(t.data - bytes_.data()));
    cuts.push_back(static_cast<size_t>(t.data - bytes_.data() + t.bytes) - 1);
  }
  std::mt19937_64 random(31);
  for (int i = 0; i < 500; ++i) cuts.push_back(random() % bytes_.size());
  for (const size_t n : cuts) {
    const auto cut = parse(bytes_.first(n));
    ASSERT_FALSE(cut) << "cut at " << n;
    EXPECT_NE(cut.error().message.find("truncated"), std::string::npos) << cut.error().message;
  }
}

TEST_F(HostileShard, AFlippedBitGivesTensorsInsideTheFileOrAnError) {
  std::mt19937_64 random(32);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    const size_t at = random() % (i % 4 == 0 ? 8 : data_start_);
    const auto bit = static_cast<std::byte>(1u << random() % 8);
    bytes_[at] ^= bit;
    const auto tensors = parse(bytes_);
    if (tensors) expect_inside(*tensors);
    if (!tensors) ++refused;
    bytes_[at] ^= bit;
  }
  EXPECT_GT(refused, 1000);
  EXPECT_TRUE(parse(bytes_));
}

// Every number of the header in turn made as large as its digits and the ones after allow: sizes no
// longer agree with shapes, or ranges leave the file.
TEST_F(HostileShard, HugeNumbersAreRefusedWhereverOneStands) {
  const std::string header(reinterpret_cast<const char*>(bytes_.data()) + 8, data_start_ - 8);
  int n_tried = 0;
  for (size_t at = 1; at < header.size(); ++at) {
    const auto digit = [&](size_t i) {
      return std::isdigit(static_cast<unsigned char>(header[i]));
    };
    if (!digit(at) || (header[at - 1] != '[' && header[at - 1] != ',' && header[at - 1] != ' '))
      continue;
    size_t end = at;
    while (digit(end)) ++end;
    for (const char* huge : {"1152921504606846976", "9223372036854775808", "18446744073709551615",
                             "99999999999999999999999"}) {
      std::string changed = header.substr(0, at) + huge + header.substr(end);
      const uint64_t n = changed.size();
      changed.insert(0, reinterpret_cast<const char*>(&n), sizeof n);
      const auto tensors = parse(std::as_bytes(std::span(changed)));
      ASSERT_FALSE(tensors) << huge << " at byte " << at;
    }
    ++n_tried;
    at = end + header.size() / 400;  // some 200 places
  }
  EXPECT_GT(n_tried, 100);
}

}  // namespace
}  // namespace ds4::safetensors
