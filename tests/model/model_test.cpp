// Whole files: Nano converted here, then opened, cut, damaged, robbed of tensors, and its draft
// block moved to a file of its own.
#include "model/model.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <random>

#include "gguf/writer.h"
#include "quantizer/converter.h"

namespace ds4 {
namespace {

namespace fs = std::filesystem;

#define EXPECT_MENTIONS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << "message: " << (text)

class NanoFile : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = fs::path(DS4_BINARY_DIR) / "model_test";
    fs::create_directories(folder_);
    const auto conversion = Conversion::plan(
        {.hf_dir = DS4_SOURCE_DIR "/models/nano", .recipe = Recipe::kExact, .overrides = {}});
    ASSERT_TRUE(conversion) << conversion.error().message;
    ConvertProgress progress;
    const auto done = conversion->run(path("nano.gguf"), {.overwrite = true}, {}, progress);
    ASSERT_TRUE(done) << done.error().message;
    auto mapping = MappedFile::open(path("nano.gguf"));
    bytes_.assign(mapping->bytes().begin(), mapping->bytes().end());
  }
  static void TearDownTestSuite() { fs::remove_all(folder_); }
  static std::string path(const char* name) { return (folder_ / name).string(); }

  static Result<Model> open_bytes(std::span<const std::byte> bytes) {
    DS4_TRY(gguf::File file, gguf::File::parse(bytes, "memory.gguf"));
    return Model::from_gguf(std::move(file));
  }

  // Writes the tensors of Nano that `keep` accepts, under `architecture`; no vocabulary.
  static void write_part(const char* name, const char* architecture,
                         bool (*keep)(std::string_view)) {
    const auto file = gguf::File::parse(bytes_, "nano");
    gguf::Layout layout;
    for (const gguf::KeyValue& kv : file->metadata()) {
      if (kv.key == "general.architecture") continue;
      layout.add_value(kv.key, kv.value.type(), kv.value.payload());
    }
    layout.add_string("general.architecture", architecture);
    std::vector<const gguf::TensorInfo*> kept;
    for (const gguf::TensorInfo& t : file->tensors()) {
      if (!keep(t.name)) continue;
      kept.push_back(&t);
      layout.add_tensor(t.name, *t.dtype(), t.view().shape());
    }
    auto writer = gguf::Writer::create(layout, path(name), true);
    ASSERT_TRUE(writer);
    for (size_t i = 0; i < kept.size(); ++i) {
      ASSERT_TRUE(writer->write(static_cast<int>(i), 0,
                                {kept[i]->data, static_cast<size_t>(*kept[i]->bytes)}));
    }
    ASSERT_TRUE(writer->finish());
  }
  static bool is_mtp(std::string_view name) { return name.starts_with("mtp."); }
  static bool is_main(std::string_view name) { return !is_mtp(name); }

  static inline fs::path folder_;
  static inline std::vector<std::byte> bytes_;
};

TEST_F(NanoFile, OpensWithAllItsParts) {
  const auto model = Model::open(path("nano.gguf"));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->config().name, "Nano");
  EXPECT_EQ(model->general_name(), "DeepSeek V4 Nano");
  EXPECT_EQ(model->effort_profile(), "preview");
  EXPECT_TRUE(model->has_mtp());
  EXPECT_EQ(model->routed_bits(), 4);
  EXPECT_EQ(model->vocab().tokens.size(), 4096u);
  EXPECT_EQ(model->vocab().merges.size(), 3827u);
  EXPECT_EQ(model->weights().layers[2].indexer.q_b.shape(), (Shape{512, 256}));
  EXPECT_EQ(model->weights().layers[0].moe.gate.dtype(), DType::kMXFP4);
  int64_t n = 0, bytes = 0;
  for (const TensorTypeUse& use : model->tensor_types()) {
    n += use.n_tensors;
    bytes += use.bytes;
  }
  EXPECT_EQ(n, 272);
  EXPECT_LT(bytes, model->file().file_bytes());
}

TEST_F(NanoFile, ViewsSurviveMoving) {
  auto model = Model::open(path("nano.gguf"));
  ASSERT_TRUE(model);
  const std::byte* before = model->weights().output.data();
  const Model moved = std::move(*model);
  EXPECT_EQ(moved.weights().output.data(), before);
  EXPECT_EQ(moved.file().find_tensor("output.weight")->data, before);
}

// At every border of the file's sections and at 500 other places: an error, never a crash.
TEST_F(NanoFile, CutsAreRefused) {
  const auto file = gguf::File::parse(bytes_, "nano");
  ASSERT_TRUE(file);
  std::vector<size_t> cuts{0, 1, 3, 4, 8, 16, 23, 24, 25, 31, 32};
  for (const gguf::KeyValue& kv : file->metadata()) {
    cuts.push_back(static_cast<size_t>(kv.value.payload().data() - bytes_.data()));
  }
  cuts.push_back(static_cast<size_t>(file->data_start()) - 1);
  cuts.push_back(static_cast<size_t>(file->data_start()));
  for (const gguf::TensorInfo& t : file->tensors()) {
    cuts.push_back(static_cast<size_t>(t.offset));
    cuts.push_back(static_cast<size_t>(t.offset + *t.bytes) - 1);
  }
  std::mt19937_64 random(5);
  for (int i = 0; i < 500; ++i) cuts.push_back(random() % (bytes_.size() - 64));
  for (const size_t n : cuts) {
    const auto model = open_bytes(std::span(bytes_).first(n));
    ASSERT_FALSE(model) << "cut at " << n;
    EXPECT_TRUE(model.error().message.find("truncated") != std::string::npos ||
                model.error().message.find("cannot fit") != std::string::npos)
        << "cut at " << n << ": " << model.error().message;
  }
}

// Bits of everything before the tensor data, where a flip can change what the bytes mean.
TEST_F(NanoFile, FlippedBitsNeverCrash) {
  const auto start = static_cast<size_t>(gguf::File::parse(bytes_, "nano")->data_start());
  std::mt19937_64 random(9);
  std::vector<std::byte> bytes = bytes_;
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    // Half of them in the directory and its neighbourhood, half anywhere.
    const size_t at =
        i % 2 == 0 ? random() % start : start - 1 - random() % std::min<size_t>(start, 16384);
    const auto bit = static_cast<std::byte>(1u << (random() % 8));
    bytes[at] ^= bit;
    if (!open_bytes(bytes)) ++refused;
    bytes[at] ^= bit;
  }
  EXPECT_GT(refused, 200);
  EXPECT_TRUE(open_bytes(bytes));
}

TEST_F(NanoFile, DraftBlockInItsOwnFile) {
  write_part("main.gguf", "deepseek4", is_main);
  write_part("mtp.gguf", "deepseek4_mtp_support", is_mtp);
  auto model = Model::open(path("main.gguf"));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_FALSE(model->has_mtp());
  const auto loaded = model->load_mtp(path("mtp.gguf"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  ASSERT_TRUE(model->has_mtp());
  EXPECT_EQ(model->weights().mtp->h_proj.shape(), (Shape{256, 256}));

  // Each in the other's place.
  EXPECT_MENTIONS(model->load_mtp(path("main.gguf")).error().message, "not an MTP draft file");
  const auto swapped = Model::open(path("mtp.gguf"));
  ASSERT_FALSE(swapped);
  EXPECT_MENTIONS(swapped.error().message, "give the main model with -m");
}

TEST_F(NanoFile, WithoutTensorsAllAreCounted) {
  write_part("empty.gguf", "deepseek4", [](std::string_view) { return false; });
  const auto model = Model::open(path("empty.gguf"));
  ASSERT_FALSE(model);
  EXPECT_MENTIONS(model.error().message, "empty.gguf: 240 tensors do not fit the model");
  EXPECT_MENTIONS(model.error().message, "token_embd.weight is missing");
}

// The directory says Q6_K where Q8_0 or a plain type belongs.
TEST_F(NanoFile, TypesTheEngineLacksAreNamed) {
  std::vector<std::byte> bytes = bytes_;
  const std::string name = "blk.3.attn_q_a.weight";
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const size_t at = std::string_view(text, bytes.size()).find(name);
  ASSERT_NE(at, std::string::npos);
  const uint32_t q6_k = 14;
  std::memcpy(bytes.data() + at + name.size() + 4 + 16, &q6_k, 4);
  const auto model = open_bytes(bytes);
  ASSERT_FALSE(model);
  EXPECT_MENTIONS(model.error().message,
                  "blk.3.attn_q_a.weight has type Q6_K, expected Q8_0, F16, BF16, F32");
}

}  // namespace
}  // namespace ds4
