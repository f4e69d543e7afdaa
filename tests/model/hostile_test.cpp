// Damaged forms of a real model file. The bytes of nano-q8_0.gguf are mapped once, private to this
// process, so that each case costs the pages it changes and not a copy of 57 MB.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/log.h"
#include "model/model.h"
#include "tests/fuzz/nano_header.h"
#include "tokenizer/tokenizer.h"

namespace ds4 {
namespace {

#define EXPECT_MENTIONS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << "message: " << (text)

#ifdef DS4_SANITIZED
constexpr int kFlips = 400;
#else
constexpr int kFlips = 2000;
#endif

class HostileNano : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const int fd = ::open(DS4_BINARY_DIR "/nano/nano-q8_0.gguf", O_RDONLY);
    ASSERT_GE(fd, 0);
    const off_t n = ::lseek(fd, 0, SEEK_END);
    void* mapped =
        ::mmap(nullptr, static_cast<size_t>(n), PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    ::close(fd);
    ASSERT_NE(mapped, MAP_FAILED);
    bytes_ = {static_cast<std::byte*>(mapped), static_cast<size_t>(n)};
    log::set_level(log::Level::kOff);
  }
  static void TearDownTestSuite() { ::munmap(bytes_.data(), bytes_.size()); }

  static gguf::File file() {
    auto parsed = gguf::File::parse(bytes_, "nano.gguf");
    EXPECT_TRUE(parsed) << parsed.error().message;
    return std::move(*parsed);
  }
  static Result<Model> open(std::span<const std::byte> bytes) {
    DS4_TRY(gguf::File parsed, gguf::File::parse(bytes, "nano.gguf"));
    return Model::from_gguf(std::move(parsed));
  }
  static size_t offset_of(const void* at) {
    return static_cast<size_t>(static_cast<const std::byte*>(at) - bytes_.data());
  }

  // Puts `value` at byte `at` for as long as it lives.
  template <typename T>
  class Patch {
   public:
    Patch(size_t at, T value) : at_(at) {
      std::memcpy(&before_, bytes_.data() + at_, sizeof(T));
      std::memcpy(bytes_.data() + at_, &value, sizeof(T));
    }
    ~Patch() { std::memcpy(bytes_.data() + at_, &before_, sizeof(T)); }
    Patch(const Patch&) = delete;
    Patch& operator=(const Patch&) = delete;

   private:
    size_t at_;
    T before_;
  };

  static inline std::span<std::byte> bytes_;
};

// Half of the flips before the tensor data, where they can change what the bytes mean, half
// anywhere. Each ends in a model whose vocabulary makes a tokenizer or an error, or in an error
// that names the file.
TEST_F(HostileNano, AFlippedBitGivesAModelOrAnError) {
  const auto start = static_cast<size_t>(file().data_start());
  const VocabData vocab = open(bytes_)->vocab();
  std::mt19937_64 random(20);
  int opened = 0, refused = 0, tokenizers = 0;
  for (int i = 0; i < kFlips; ++i) {
    const size_t at = random() % (i % 2 == 0 ? start : bytes_.size());
    const Patch flipped(at, bytes_[at] ^ static_cast<std::byte>(1u << random() % 8));
    const auto model = open(bytes_);
    if (!model) {
      EXPECT_MENTIONS(model.error().message, "nano.gguf");
      ++refused;
      continue;
    }
    ++opened;
    if (model->vocab().tokens == vocab.tokens && model->vocab().merges == vocab.merges &&
        model->vocab().token_types == vocab.token_types) {
      continue;
    }
    const auto tokenizer = Tokenizer::create(model->vocab());
    if (!tokenizer) continue;
    ++tokenizers;
    const std::string text = "The 123 <think> foxes\n";
    EXPECT_EQ(tokenizer->decode(tokenizer->encode_text(text)), text);
  }
  // A flip in weights changes no structure; one in a tensor's record or in a length is refused.
  EXPECT_GT(opened, kFlips / 2);
  EXPECT_GT(refused, kFlips / 20);
  EXPECT_GT(tokenizers, 0);
}

// Where the counts and lengths of the header stand: tensors, keys, names, strings, arrays, strings
// in arrays, dimensions.
std::vector<size_t> places_of_counts(const gguf::File& file, const std::byte* begin) {
  const auto offset = [&](const void* p) {
    return static_cast<size_t>(static_cast<const std::byte*>(p) - begin);
  };
  std::vector<size_t> places = {8, 16};
  for (const gguf::KeyValue& kv : file.metadata()) {
    const size_t payload = offset(kv.value.payload().data());
    places.push_back(offset(kv.key.data()) - 8);
    if (kv.value.type() == gguf::ValueType::kString) places.push_back(payload);
    if (kv.value.type() == gguf::ValueType::kArray) places.push_back(payload + 4);
    if (const auto texts = kv.value.as_strings()) {
      for (size_t i = 0; i < texts->size(); i += 4)
        places.push_back(offset((*texts)[i].data()) - 8);
    }
  }
  for (const gguf::TensorInfo& info : file.tensors()) {
    const size_t name = offset(info.name.data());
    places.push_back(name - 8);
    for (size_t d = 0; d < info.dims.size(); ++d) {
      places.push_back(name + info.name.size() + 4 + 8 * d);
    }
  }
  return places;
}

TEST_F(HostileNano, HugeCountsAreRefusedWhereverACountStands) {
  const std::vector<size_t> places = places_of_counts(file(), bytes_.data());
  EXPECT_GT(places.size(), 1000u);
  for (const size_t at : places) {
    for (const uint64_t count : {uint64_t{1} << 60, uint64_t{1} << 63, ~uint64_t{0}}) {
      const Patch hostile(at, count);
      const auto parsed = gguf::File::parse(bytes_, "nano.gguf");
      ASSERT_FALSE(parsed) << count << " at byte " << at;
      EXPECT_EQ(parsed.error().code, ErrorCode::kCorrupt) << parsed.error().message;
    }
  }
}

// Each tensor moved onto the one before it.
TEST_F(HostileNano, TensorsOnTopOfEachOtherAreRefused) {
  const gguf::File whole = file();
  const auto& tensors = whole.tensors();
  ASSERT_GT(tensors.size(), 200u);
  for (size_t i = 1; i < tensors.size(); ++i) {
    const size_t record = offset_of(tensors[i].name.data()) + tensors[i].name.size();
    const auto target = static_cast<uint64_t>(tensors[i - 1].offset - whole.data_start());
    const Patch moved(record + 4 + 8 * tensors[i].dims.size() + 4, target);
    const auto model = open(bytes_);
    ASSERT_FALSE(model) << tensors[i].name;
    EXPECT_MENTIONS(model.error().message, "overlaps");
    EXPECT_MENTIONS(model.error().message, std::string(tensors[i].name));
  }
}

// A NaN in the data is no matter of the file's form: it opens, and the logits tell
// (tests/engine/hostile_weights_test.cpp).
TEST_F(HostileNano, NanScalesDoNotStopLoading) {
  const gguf::File whole = file();
  int n_opened = 0;
  for (const gguf::TensorInfo& info : whole.tensors()) {
    if (info.dtype() != DType::kQ8_0) continue;
    const Patch<uint16_t> nan(static_cast<size_t>(info.offset), 0x7E00);
    const auto model = open(bytes_);
    EXPECT_TRUE(model) << info.name << ": " << model.error().message;
    ++n_opened;
  }
  EXPECT_GT(n_opened, 50);
}

// BC-19. Metadata of other exporters counts a draft block that the file does not have: tensors
// decide, and the model opens without one.
TEST(HostileHeader, ADraftBlockThatIsOnlyInTheMetadataIsNotThere) {
  fuzz::EditableHeader header = fuzz::nano_header();
  std::erase_if(header.tensors, [](const auto& t) { return t.name.starts_with("mtp."); });
  header.keys.push_back({"deepseek4.nextn_predict_layers",
                         static_cast<uint32_t>(gguf::ValueType::kU32), std::string("\1\0\0\0", 4)});
  auto file = gguf::File::parse(fuzz::with_zero_data(header.bytes(), fuzz::nano_file_bytes()), "x");
  ASSERT_TRUE(file) << file.error().message;
  const auto model = Model::from_gguf(std::move(*file));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_FALSE(model->has_mtp());
}

}  // namespace
}  // namespace ds4
