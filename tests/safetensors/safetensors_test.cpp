// The sharded reader on the Nano checkpoint, and on files that lie: cut, overlapping, mistyped,
// nested, with shards missing or tensors in the wrong one.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "safetensors/checkpoint.h"

namespace ds4::safetensors {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> file_with(const std::string& header, size_t n_data) {
  const uint64_t n = header.size();
  std::vector<std::byte> bytes(8 + header.size() + n_data);
  std::memcpy(bytes.data(), &n, 8);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  return bytes;
}

std::string refusal(const std::string& header, size_t n_data = 64) {
  const auto tensors = parse_file(file_with(header, n_data), "x.safetensors");
  EXPECT_FALSE(tensors) << header;
  return tensors ? "" : tensors.error().message;
}

#define EXPECT_MENTIONS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << "message: " << (text)

constexpr const char* kGood = R"({"__metadata__":{"format":"pt"},)"
                              R"("a":{"dtype":"BF16","shape":[2,4],"data_offsets":[0,16]},)"
                              R"("b":{"dtype":"F8_E8M0","shape":[3],"data_offsets":[16,19]},)"
                              R"("empty":{"shape":[0,4],"dtype":"F32","data_offsets":[19,19]}})";

TEST(SafetensorsHeader, GivesTypesShapesAndBytes) {
  const auto bytes = file_with(kGood, 19);
  const auto tensors = parse_file(bytes, "x.safetensors");
  ASSERT_TRUE(tensors) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 3u);
  const TensorInfo& b = (*tensors)[1];
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(element_name(b.type), "F8_E8M0");
  EXPECT_EQ(b.shape, (std::vector<int64_t>{3}));
  EXPECT_EQ(b.data, bytes.data() + bytes.size() - 3);
  EXPECT_EQ((*tensors)[0].shape_text(), "[2, 4]");
}

TEST(SafetensorsHeader, RefusesLengthsThatLie) {
  EXPECT_MENTIONS(parse_file({}, "x").error().message, "truncated");
  auto bytes = file_with("{}", 0);
  uint64_t n = 3;
  std::memcpy(bytes.data(), &n, 8);
  EXPECT_MENTIONS(parse_file(bytes, "x").error().message, "truncated: the header has 3 bytes");
  n = uint64_t{1} << 60;
  std::memcpy(bytes.data(), &n, 8);
  EXPECT_MENTIONS(parse_file(bytes, "x").error().message, "is this a safetensors file?");
}

TEST(SafetensorsHeader, RefusesTensorsThatDoNotFitTheirBytes) {
  EXPECT_MENTIONS(refusal(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,12]}})"),
                  "F32 of shape [4] does not take 12 bytes");
  EXPECT_MENTIONS(refusal(R"({"a":{"dtype":"F32","shape":[32],"data_offsets":[0,128]}})"),
                  "spans bytes 0..128 of the data, which has 64");
  EXPECT_MENTIONS(refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[8,4]}})"), "8..4");
  EXPECT_MENTIONS(
      refusal(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})"),
      "does not take");
  EXPECT_MENTIONS(refusal(R"({"a":{"dtype":"U4","shape":[4],"data_offsets":[0,4]}})"), "dtype U4");
  EXPECT_MENTIONS(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                          R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})"),
                  "tensor a overlaps tensor b");
}

// Found by fuzzing: a dimension of 2^63 beside one of 0 takes no bytes, and was handed on as a
// negative dimension.
TEST(SafetensorsHeader, AnEmptyTensorHidesNoImpossibleDimension) {
  for (const char* shape : {"[9223372036854775808,0]", "[0,9223372036854775808]",
                            "[0,4294967296,4294967296]", "[4294967296,0,4294967296]"}) {
    EXPECT_MENTIONS(refusal(std::string(R"({"a":{"dtype":"I8","shape":)") + shape +
                            R"(,"data_offsets":[0,0]}})"),
                    "does not take 0 bytes");
  }
}

TEST(SafetensorsHeader, RefusesJsonThatIsNotAHeader) {
  EXPECT_MENTIONS(refusal("[]"), "a JSON object expected");
  EXPECT_MENTIONS(refusal(R"({"a":)"), "not valid JSON at byte");
  EXPECT_MENTIONS(refusal(R"({"a":7})"), "a number is not expected");
  EXPECT_MENTIONS(refusal(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})"),
                  "negative");
  EXPECT_MENTIONS(refusal(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})"),
                  "fraction");
  EXPECT_MENTIONS(refusal(R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})"), "a list");
  EXPECT_MENTIONS(refusal(R"({"a":{"dtype":"F32","shape":[1]}})"), "two data_offsets expected");
  EXPECT_MENTIONS(refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{}})"),
                  "a appears twice");
  EXPECT_MENTIONS(refusal(R"({"a":{"kind":"F32"}})"), "unknown field kind");
  EXPECT_MENTIONS(refusal(R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1]}})"), "more than 8");
  EXPECT_FALSE(refusal(R"({"__metadata__":{"x":{"y":1}}})").empty());
  EXPECT_FALSE(refusal("{\"a\":" + std::string(1000000, '[')).empty());
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  EXPECT_FALSE(refusal(objects).empty());
}

TEST(SafetensorsHeader, CutsAndFlippedBitsNeverCrash) {
  const auto whole = file_with(kGood, 19);
  for (size_t n = 0; n < whole.size(); ++n) {
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
    EXPECT_FALSE(parse_file(cut, "cut")) << n;
  }
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    auto bytes = whole;
    bytes[random() % bytes.size()] ^= static_cast<std::byte>(1u << (random() % 8));
    (void)parse_file(bytes, "flipped");
  }
}

TEST(SafetensorsCheckpoint, OpensNanoAcrossItsShards) {
  const auto nano = Checkpoint::open(DS4_SOURCE_DIR "/models/nano");
  ASSERT_TRUE(nano) << nano.error().message;
  const TensorInfo* embed = nano->find("embed.weight");
  ASSERT_NE(embed, nullptr);
  EXPECT_EQ(embed->shape, (std::vector<int64_t>{4096, 256}));
  EXPECT_EQ(embed->n_elements(), 4096 * 256);
  EXPECT_EQ(embed->type, ElementType::kBF16);
  const TensorInfo* expert = nano->find("mtp.0.ffn.experts.15.w2.weight");
  ASSERT_NE(expert, nullptr);
  EXPECT_EQ(expert->type, ElementType::kI8);
  EXPECT_EQ(nano->find("layers.2.ffn.gate.tid2eid")->type, ElementType::kI64);
  EXPECT_EQ(nano->find("nothing"), nullptr);
  int64_t bytes = 0;
  for (const TensorInfo& t : nano->tensors()) bytes += t.bytes;
  EXPECT_GT(bytes, 40 << 20);
  EXPECT_GE(nano->file_bytes(), bytes);

  const auto one = Checkpoint::open(DS4_SOURCE_DIR "/models/nano/reference.safetensors");
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_FALSE(one->tensors().empty());
}

class SafetensorsFolder : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(DS4_BINARY_DIR) / "safetensors_test";
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const char* name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  void write_shard(const char* name, const char* tensor) {
    const auto bytes = file_with(
        std::string("{\"") + tensor + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4);
    write(name, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  std::string refusal() {
    const auto checkpoint = Checkpoint::open(folder_.string());
    EXPECT_FALSE(checkpoint);
    return checkpoint ? "" : checkpoint.error().message;
  }
  fs::path folder_;
};

constexpr const char* kIndex = "model.safetensors.index.json";

TEST_F(SafetensorsFolder, NamesWhatIsMissing) {
  EXPECT_MENTIONS(refusal(), "neither model.safetensors.index.json nor model.safetensors");
  write(kIndex, R"({"metadata":{"total_size":8},"weight_map":{"a":"1.st","b":"2.st"}})");
  write_shard("1.st", "a");
  EXPECT_MENTIONS(refusal(), "shard 2.st is missing");
  write_shard("2.st", "c");
  EXPECT_MENTIONS(refusal(), "tensor b is not in shard 2.st");
  write_shard("2.st", "a");
  EXPECT_MENTIONS(refusal(), "tensor a is in another shard too");
  write_shard("2.st", "b");
  EXPECT_TRUE(Checkpoint::open(folder_.string()));
}

TEST_F(SafetensorsFolder, RefusesAHostileIndex) {
  write(kIndex, R"({"weight_map":{"a":"../../etc/passwd"}})");
  EXPECT_MENTIONS(refusal(), "a file name expected");
  write(kIndex, R"({"weight_map":{"a":7}})");
  EXPECT_MENTIONS(refusal(), "a file name expected");
  write(kIndex, "{\"weight_map\":" + std::string(100000, '['));
  EXPECT_MENTIONS(refusal(), "nested too deeply");
  write(kIndex, "not json");
  EXPECT_MENTIONS(refusal(), "not valid JSON");
  write(kIndex, R"({"weight_map":{}})");
  EXPECT_MENTIONS(refusal(), "no weight_map");
}

TEST_F(SafetensorsFolder, NamesATruncatedShard) {
  write_shard("model.safetensors", "a");
  ASSERT_TRUE(Checkpoint::open(folder_.string()));
  fs::resize_file(folder_ / "model.safetensors", fs::file_size(folder_ / "model.safetensors") - 1);
  EXPECT_MENTIONS(refusal(), "download incomplete?");
}

}  // namespace
}  // namespace ds4::safetensors
