// A file written through Layout and Writer comes back value for value and byte for byte, and a
// writer that is dropped leaves nothing.
#include "gguf/writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "gguf/file.h"
#include "tests/gguf/builder.h"

namespace ds4::gguf {
namespace {

namespace fs = std::filesystem;

class GgufWriter : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(DS4_BINARY_DIR) / "gguf_writer_test";
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const char* name) const { return (folder_ / name).string(); }

  fs::path folder_;
};

Layout example(int64_t alignment = kDefaultAlignment) {
  Layout layout(alignment);
  layout.add_string("general.architecture", "deepseek4");
  layout.add_u32("a.u32", 4000000000u);
  layout.add_u64("a.u64", uint64_t{1} << 40);
  layout.add_f32("a.f32", 0.1f);
  layout.add_bool("a.bool", true);
  layout.add_i32s("a.i32s", std::vector<int32_t>{0, -4, 128});
  layout.add_f32s("a.f32s", std::vector<float>{10.0f, 10.0f});
  layout.add_strings("a.strings", std::vector<std::string>{"x", "", "\xC4\xA0y"});
  layout.add_tensor("matrix.weight", DType::kQ8_0, {3, 64});
  layout.add_tensor("experts.weight", DType::kMXFP4, {2, 5, 32});
  layout.add_tensor("vector.weight", DType::kF32, {7});
  return layout;
}

std::vector<std::byte> pattern(int64_t n, int seed) {
  std::vector<std::byte> bytes(static_cast<size_t>(n));
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>((i * 31 + static_cast<size_t>(seed) * 7) & 0xff);
  }
  return bytes;
}

TEST_F(GgufWriter, WhatIsWrittenIsReadBack) {
  for (const int64_t alignment : {kDefaultAlignment, int64_t{8}, int64_t{4096}}) {
    SCOPED_TRACE(alignment);
    const Layout layout = example(alignment);
    const std::string file_path = path("out.gguf");
    auto writer = Writer::create(layout, file_path, true);
    ASSERT_TRUE(writer) << writer.error().message;
    // Last tensor first and in two pieces: the order of writing does not matter.
    for (int t = layout.n_tensors() - 1; t >= 0; --t) {
      const auto bytes = pattern(layout.tensor_bytes(t), t);
      const std::span<const std::byte> all(bytes);
      const size_t half = bytes.size() / 2;
      ASSERT_TRUE(writer->write(t, static_cast<int64_t>(half), all.subspan(half)));
      ASSERT_TRUE(writer->write(t, 0, all.first(half)));
    }
    ASSERT_TRUE(writer->finish());

    const auto file = File::open(file_path);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->file_bytes(), layout.file_bytes());
    EXPECT_EQ(file->file_bytes() % alignment, 0) << "the last tensor is padded too";
    EXPECT_EQ(file->alignment(), alignment);
    EXPECT_EQ(file->data_start(), layout.data_start());
    EXPECT_EQ(file->find("a.u32")->as_int(), 4000000000);
    EXPECT_EQ(file->find("a.u64")->as_int(), int64_t{1} << 40);
    EXPECT_EQ(file->find("a.f32")->as_float(), static_cast<double>(0.1f));
    EXPECT_EQ(file->find("a.bool")->as_bool(), true);
    EXPECT_EQ(file->find("a.i32s")->as_ints(), (std::vector<int64_t>{0, -4, 128}));
    EXPECT_EQ(file->find("a.f32s")->as_floats(), (std::vector<double>{10, 10}));
    EXPECT_EQ(file->find("a.strings")->as_strings(),
              (std::vector<std::string_view>{"x", "", "\xC4\xA0y"}));
    for (int t = 0; t < layout.n_tensors(); ++t) {
      const TensorInfo& info = file->tensors()[static_cast<size_t>(t)];
      const auto expected = pattern(layout.tensor_bytes(t), t);
      ASSERT_EQ(info.bytes, layout.tensor_bytes(t));
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), info.data)) << info.name;
    }
    EXPECT_EQ(file->find_tensor("experts.weight")->view().shape(), (Shape{2, 5, 32}));
  }
}

TEST_F(GgufWriter, ThreadsMayWriteDifferentPieces) {
  Layout layout;
  const int t = layout.add_tensor("t", DType::kF32, {64, 1024});
  auto writer = Writer::create(layout, path("threads.gguf"), false);
  ASSERT_TRUE(writer);
  const auto bytes = pattern(layout.tensor_bytes(t), 3);
  {
    std::vector<std::jthread> threads;
    for (int64_t i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        const int64_t n = layout.tensor_bytes(t) / 8;
        EXPECT_TRUE(writer->write(
            t, i * n,
            std::span(bytes).subspan(static_cast<size_t>(i * n), static_cast<size_t>(n))));
      });
    }
  }
  ASSERT_TRUE(writer->finish());
  const auto file = File::open(path("threads.gguf"));
  ASSERT_TRUE(file);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), file->tensors()[0].data));
}

TEST_F(GgufWriter, LeavesNothingWhenItIsDropped) {
  {
    auto writer = Writer::create(example(), path("dropped.gguf"), false);
    ASSERT_TRUE(writer);
    EXPECT_FALSE(fs::is_empty(folder_)) << "a temporary file while writing";
    EXPECT_FALSE(fs::exists(path("dropped.gguf")));
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(GgufWriter, RefusesAnExistingFileUnlessTold) {
  Layout empty;
  ASSERT_TRUE(Writer::create(empty, path("there.gguf"), false)->finish());
  const auto again = Writer::create(empty, path("there.gguf"), false);
  ASSERT_FALSE(again);
  EXPECT_MENTIONS(again.error().message, "already exists");
  EXPECT_TRUE(Writer::create(empty, path("there.gguf"), true));
}

// Metadata copied through raw payloads is the same file.
TEST_F(GgufWriter, CopiedValuesAreIdentical) {
  const Bytes source = good_file();
  const auto file = parse(source);
  ASSERT_TRUE(file);
  Layout layout;
  for (const KeyValue& kv : file->metadata()) {
    layout.add_value(kv.key, kv.value.type(), kv.value.payload());
  }
  for (const TensorInfo& t : file->tensors()) {
    layout.add_tensor(t.name, *t.dtype(), t.view().shape());
  }
  const std::vector<std::byte> header = layout.header();
  ASSERT_LE(header.size(), source.data.size());
  EXPECT_TRUE(std::equal(header.begin(), header.end(), source.data.begin()));
  EXPECT_EQ(layout.file_bytes(), static_cast<int64_t>(source.data.size()));
}

}  // namespace
}  // namespace ds4::gguf
