// Slices: the first layers of a model, marked in the metadata. Accepted when allowed, held to every
// constant of their family, and refused in all other cases. Files here are headers without tensors.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "gguf/writer.h"
#include "model/config_reader.h"
#include "quantizer/metadata.h"

namespace ds4 {
namespace {

#define EXPECT_MENTIONS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << "message: " << (text)

// The metadata of `config`, less `without`, plus what `add` adds. The vocabulary is not looked at.
std::vector<std::byte> header_of(const ModelConfig& config, std::string_view without = "",
                                 const std::function<void(gguf::Layout&)>& add = {}) {
  gguf::Layout layout;
  add_metadata(layout, config, {.tokens = {"a"}, .merges = {"a b"}, .token_types = {1}}, {});
  const auto bytes = layout.header();
  const auto file = gguf::File::parse(bytes, "original");
  gguf::Layout changed;
  for (const gguf::KeyValue& kv : file->metadata()) {
    if (kv.key != without) changed.add_value(kv.key, kv.value.type(), kv.value.payload());
  }
  if (add) add(changed);
  return changed.header();
}

Result<ModelConfig> read(const std::vector<std::byte>& bytes, bool allow_slice = true) {
  DS4_TRY(const gguf::File file, gguf::File::parse(bytes, "slice.gguf"));
  return config_from_gguf(file, {.allow_slice = allow_slice});
}

std::string refusal(const std::vector<std::byte>& bytes, bool allow_slice = true) {
  const auto config = read(bytes, allow_slice);
  EXPECT_FALSE(config);
  return config ? "" : config.error().message;
}

TEST(Slice, KeepsTheFirstLayersAndEverythingElse) {
  const ModelConfig slice = slice_of(flash_config(), 4);
  EXPECT_EQ(slice.n_layers, 4);
  EXPECT_EQ(slice.slice_of_layers, 43);
  EXPECT_TRUE(slice.is_slice());
  EXPECT_FALSE(flash_config().is_slice());
  EXPECT_EQ(slice.compress_ratios, (std::vector<int>{0, 0, 4, 128}));
  EXPECT_EQ(slice.n_hash_layers, 3);
  EXPECT_EQ(slice.hidden, flash_config().hidden);
  EXPECT_EQ(slice_of(pro_config(), 2).n_hash_layers, 2);
}

TEST(Slice, IsAcceptedWhenAllowedOnly) {
  for (const ModelConfig* whole : {&flash_config(), &pro_config(), &nano_config()}) {
    for (const int64_t n : {int64_t{1}, int64_t{2}, int64_t{4}, whole->n_layers - 1}) {
      SCOPED_TRACE(whole->name + " " + std::to_string(n));
      const ModelConfig slice = slice_of(*whole, n);
      const auto found = read(header_of(slice));
      ASSERT_TRUE(found) << found.error().message;
      EXPECT_EQ(found->name, whole->name);
      EXPECT_EQ(found->n_layers, n);
      EXPECT_EQ(found->slice_of_layers, whole->n_layers);
      EXPECT_EQ(found->compress_ratios, slice.compress_ratios);
      EXPECT_EQ(found->n_hash_layers, slice.n_hash_layers);
      const std::string text = refusal(header_of(slice), /*allow_slice=*/false);
      EXPECT_MENTIONS(text, "slice.gguf: this is a slice, the first " + std::to_string(n) + " of");
      EXPECT_MENTIONS(text, "--allow-slice");
    }
    const auto found = read(header_of(*whole));
    ASSERT_TRUE(found) << "the flag changes nothing for a whole model";
    EXPECT_FALSE(found->is_slice());
  }
}

TEST(Slice, WithoutItsMarkIsNoModel) {
  const std::string text = refusal(header_of(slice_of(flash_config(), 4), kSliceOfLayersKey));
  EXPECT_MENTIONS(text, "not one of the supported models");
  EXPECT_MENTIONS(text, "deepseek4.block_count is 43, found 4");
}

TEST(Slice, MarksWithoutSenseAreRefused) {
  const auto marked = [](const ModelConfig& config, uint32_t of_layers) {
    return header_of(config, kSliceOfLayersKey,
                     [&](gguf::Layout& l) { l.add_u32(kSliceOfLayersKey, of_layers); });
  };
  for (const uint32_t of_layers : {0u, 3u, 4u, 5u, 44u, 4294967295u}) {
    EXPECT_MENTIONS(refusal(marked(slice_of(flash_config(), 4), of_layers)), kSliceOfLayersKey);
  }
  EXPECT_MENTIONS(refusal(marked(flash_config(), 43)), kSliceOfLayersKey);
  // 8 and 61 are Nano's and Pro's, whose other numbers the file does not have.
  EXPECT_MENTIONS(refusal(marked(slice_of(flash_config(), 4), 8)), "nearest is Nano");
  EXPECT_MENTIONS(refusal(marked(slice_of(flash_config(), 4), 61)), "nearest is Pro");
  EXPECT_MENTIONS(
      refusal(header_of(slice_of(flash_config(), 4), kSliceOfLayersKey,
                        [](gguf::Layout& l) { l.add_string(kSliceOfLayersKey, "43"); })),
      "mistyped keys: ds4.slice.of_layers");
}

TEST(Slice, IsHeldToTheConstantsOfItsFamily) {
  const ModelConfig slice = slice_of(flash_config(), 4);
  EXPECT_MENTIONS(refusal(header_of(
                      slice, "deepseek4.expert_weights_scale",
                      [](gguf::Layout& l) { l.add_f32("deepseek4.expert_weights_scale", 2.5f); })),
                  "expert_weights_scale: expected 1.5, found 2.5");
  EXPECT_MENTIONS(
      refusal(header_of(slice, "deepseek4.hash_layer_count",
                        [](gguf::Layout& l) { l.add_u32("deepseek4.hash_layer_count", 2); })),
      "deepseek4.hash_layer_count is 3, found 2");
  const std::vector<int32_t> ratios{0, 0, 128, 4};
  EXPECT_MENTIONS(refusal(header_of(slice, "deepseek4.attention.compress_ratios",
                                    [&](gguf::Layout& l) {
                                      l.add_i32s("deepseek4.attention.compress_ratios", ratios);
                                    })),
                  "compress_ratios[2]: expected 4, found 128");
}

}  // namespace
}  // namespace ds4
