// The three shapes, and metadata that must be refused: each changed constant by name, all missing
// keys at once. Files here are headers without tensors, copied from Nano's with one thing changed.
#include "model/config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "gguf/writer.h"
#include "model/config_reader.h"
#include "quantizer/metadata.h"

namespace ds4 {
namespace {

#define EXPECT_MENTIONS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << "message: " << (text)

TEST(ModelConfig, SchedulesOfTheThreeShapes) {
  const auto count = [](const ModelConfig& c, int ratio) {
    return std::count(c.compress_ratios.begin(), c.compress_ratios.end(), ratio);
  };
  EXPECT_EQ(count(flash_config(), 0), 2);
  EXPECT_EQ(count(flash_config(), 4), 21);
  EXPECT_EQ(count(flash_config(), 128), 20);
  EXPECT_EQ(count(pro_config(), 0), 0);
  EXPECT_EQ(count(pro_config(), 4), 30);
  EXPECT_EQ(count(pro_config(), 128), 31);
  EXPECT_EQ(nano_config().compress_ratios, (std::vector<int>{0, 0, 4, 128, 4, 128, 4, 128}));
  EXPECT_EQ(flash_config().compressor_width(2), 1024);
  EXPECT_EQ(flash_config().compressor_width(3), 512);
  EXPECT_EQ(flash_config().hc_mix_rows(), 24);
  EXPECT_EQ(flash_config().group_width(), 4096);
  EXPECT_EQ(pro_config().group_width(), 4096);
  EXPECT_TRUE(flash_config().is_hash_layer(2));
  EXPECT_FALSE(flash_config().is_hash_layer(3));
  EXPECT_TRUE(pro_config().has_indexer(2));
}

// A vocabulary of the right size with the control tokens; nothing here encodes text.
VocabData small_vocab(const ModelConfig& config) {
  VocabData vocab;
  vocab.tokens = {"<｜begin▁of▁sentence｜>",
                  "<｜end▁of▁sentence｜>",
                  "<｜User｜>",
                  "<｜Assistant｜>",
                  "<think>",
                  "</think>",
                  "｜DSML｜"};
  while (static_cast<int64_t>(vocab.tokens.size()) < config.vocab_size) {
    vocab.tokens.push_back("t" + std::to_string(vocab.tokens.size()));
  }
  vocab.merges = {"a b"};
  vocab.token_types.assign(vocab.tokens.size(), 1);
  return vocab;
}

class Metadata : public testing::Test {
 protected:
  Metadata() : original_(header_of(nano_config())) {}

  static std::vector<std::byte> header_of(const ModelConfig& config) {
    gguf::Layout layout;
    add_metadata(layout, config, small_vocab(config), {.n_draft_blocks = 1});
    return with_tail(layout);
  }
  static std::vector<std::byte> with_tail(const gguf::Layout& layout) {
    auto bytes = layout.header();
    bytes.resize(std::max<size_t>(bytes.size(), 64));
    return bytes;
  }

  // Nano's metadata without `key`; `replace` may add it in another form.
  std::vector<std::byte> without(const std::vector<std::string>& keys,
                                 const std::function<void(gguf::Layout&)>& replace = {}) const {
    const auto file = gguf::File::parse(original_, "original");
    gguf::Layout layout;
    for (const gguf::KeyValue& kv : file->metadata()) {
      if (std::find(keys.begin(), keys.end(), kv.key) != keys.end()) continue;
      layout.add_value(kv.key, kv.value.type(), kv.value.payload());
    }
    if (replace) replace(layout);
    return with_tail(layout);
  }

  static std::string refusal(const std::vector<std::byte>& bytes) {
    const auto file = gguf::File::parse(bytes, "patched.gguf");
    if (!file) return "not parsed: " + file.error().message;
    const auto config = config_from_gguf(*file);
    EXPECT_FALSE(config);
    return config ? "" : config.error().message;
  }
  std::string refusal(const std::string& key,
                      const std::function<void(gguf::Layout&)>& replace) const {
    return refusal(without({key}, replace));
  }

  std::vector<std::byte> original_;
};

TEST_F(Metadata, EachShapeIsRecognised) {
  for (const ModelConfig* config : {&flash_config(), &pro_config(), &nano_config()}) {
    const auto bytes = header_of(*config);
    const auto file = gguf::File::parse(bytes, "x");
    ASSERT_TRUE(file);
    const auto found = config_from_gguf(*file);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->name, config->name);
    EXPECT_EQ(found->max_position, 1048576);
    EXPECT_EQ(found->compress_ratios, config->compress_ratios);
    EXPECT_TRUE(vocab_from_gguf(*file, *found));
  }
}

// Whatever integer width or float width an exporter chose.
TEST_F(Metadata, OtherNumberTypesAreTaken) {
  const auto bytes =
      without({"deepseek4.block_count", "deepseek4.rope.freq_base", "deepseek4.context_length"},
              [](gguf::Layout& l) {
                l.add_u64("deepseek4.block_count", 8);
                l.add_u32("deepseek4.rope.freq_base", 10000);
                l.add_u32("deepseek4.context_length", 65536);
              });
  const auto file = gguf::File::parse(bytes, "x");
  const auto config = config_from_gguf(*file);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->max_position, 65536);
}

TEST_F(Metadata, OptionalKeysHaveDefaults) {
  const auto bytes =
      without({"deepseek4.rope.scaling.type", "deepseek4.rope.scaling.factor",
               "deepseek4.rope.scaling.original_context_length",
               "deepseek4.rope.scaling.yarn_beta_fast", "deepseek4.rope.scaling.yarn_beta_slow",
               "deepseek4.swiglu_clamp_shexp", "deepseek4.expert_gating_func",
               "deepseek4.context_length", "general.name", "tokenizer.ggml.token_type"});
  const auto file = gguf::File::parse(bytes, "x");
  const auto config = config_from_gguf(*file);
  ASSERT_TRUE(config) << config.error().message;
  const auto vocab = vocab_from_gguf(*file, *config);
  ASSERT_TRUE(vocab);
  EXPECT_EQ(vocab->token_types.size(), vocab->tokens.size());
}

TEST_F(Metadata, OtherArchitecturesAreNamed) {
  const auto with = [&](const char* name) {
    return refusal("general.architecture",
                   [&](gguf::Layout& l) { l.add_string("general.architecture", name); });
  };
  EXPECT_MENTIONS(with("llama"), "general.architecture: expected deepseek4, found llama");
  EXPECT_MENTIONS(with("deepseek4_mtp_support"), "MTP draft block");
  EXPECT_MENTIONS(refusal(without({"general.architecture"})), "general.architecture is missing");
}

constexpr const char* kRequired[] = {"deepseek4.block_count",
                                     "deepseek4.embedding_length",
                                     "deepseek4.vocab_size",
                                     "deepseek4.attention.head_count",
                                     "deepseek4.attention.head_count_kv",
                                     "deepseek4.attention.key_length",
                                     "deepseek4.attention.value_length",
                                     "deepseek4.rope.dimension_count",
                                     "deepseek4.attention.q_lora_rank",
                                     "deepseek4.attention.output_lora_rank",
                                     "deepseek4.attention.output_group_count",
                                     "deepseek4.attention.sliding_window",
                                     "deepseek4.attention.compress_ratios",
                                     "deepseek4.attention.compress_rope_freq_base",
                                     "deepseek4.attention.layer_norm_rms_epsilon",
                                     "deepseek4.attention.indexer.head_count",
                                     "deepseek4.attention.indexer.key_length",
                                     "deepseek4.attention.indexer.top_k",
                                     "deepseek4.expert_count",
                                     "deepseek4.expert_used_count",
                                     "deepseek4.expert_shared_count",
                                     "deepseek4.expert_feed_forward_length",
                                     "deepseek4.expert_weights_scale",
                                     "deepseek4.expert_weights_norm",
                                     "deepseek4.hash_layer_count",
                                     "deepseek4.swiglu_clamp_exp",
                                     "deepseek4.hyper_connection.count",
                                     "deepseek4.hyper_connection.sinkhorn_iterations",
                                     "deepseek4.hyper_connection.epsilon",
                                     "deepseek4.rope.freq_base",
                                     "tokenizer.ggml.model",
                                     "tokenizer.ggml.tokens",
                                     "tokenizer.ggml.merges"};

TEST_F(Metadata, AllMissingKeysAreListedAtOnce) {
  std::mt19937 random(11);
  for (int round = 0; round < 40; ++round) {
    std::vector<std::string> keys(std::begin(kRequired), std::end(kRequired));
    std::shuffle(keys.begin(), keys.end(), random);
    keys.resize(1 + random() % 8);
    const std::string text = refusal(without(keys));
    for (const std::string& key : keys) EXPECT_MENTIONS(text, key);
  }
  EXPECT_MENTIONS(refusal("deepseek4.block_count",
                          [](gguf::Layout& l) { l.add_string("deepseek4.block_count", "8"); }),
                  "deepseek4.block_count is string, expected an integer");
}

TEST_F(Metadata, AnyOtherShapeIsRefusedWithTheFirstDifference) {
  const char* integers[] = {"deepseek4.block_count",
                            "deepseek4.embedding_length",
                            "deepseek4.vocab_size",
                            "deepseek4.attention.head_count",
                            "deepseek4.attention.head_count_kv",
                            "deepseek4.attention.key_length",
                            "deepseek4.attention.value_length",
                            "deepseek4.rope.dimension_count",
                            "deepseek4.attention.q_lora_rank",
                            "deepseek4.attention.output_lora_rank",
                            "deepseek4.attention.output_group_count",
                            "deepseek4.attention.sliding_window",
                            "deepseek4.attention.indexer.head_count",
                            "deepseek4.attention.indexer.key_length",
                            "deepseek4.attention.indexer.top_k",
                            "deepseek4.expert_count",
                            "deepseek4.expert_used_count",
                            "deepseek4.expert_shared_count",
                            "deepseek4.expert_feed_forward_length",
                            "deepseek4.hash_layer_count",
                            "deepseek4.hyper_connection.count",
                            "deepseek4.hyper_connection.sinkhorn_iterations"};
  for (const char* key : integers) {
    const std::string text = refusal(key, [&](gguf::Layout& l) { l.add_u32(key, 7777); });
    EXPECT_MENTIONS(text, "Flash, Pro and Nano");
    EXPECT_MENTIONS(text, std::string("nearest is Nano, where ") + key);
    EXPECT_MENTIONS(text, "found 7777");
  }
}

TEST_F(Metadata, EachChangedConstantIsNamed) {
  struct Change {
    const char* key;
    float value;
    const char* expected;
  };
  // An epsilon of 0 differs from 1e-6 by no more than 1e-6: it must not pass as equal.
  for (const Change& c :
       {Change{"deepseek4.rope.freq_base", 10001.0f, "expected 10000"},
        Change{"deepseek4.attention.compress_rope_freq_base", 10000.0f, "160000"},
        Change{"deepseek4.attention.layer_norm_rms_epsilon", 1e-5f, "found"},
        Change{"deepseek4.attention.layer_norm_rms_epsilon", 0.0f, "found 0"},
        Change{"deepseek4.hyper_connection.epsilon", 2e-6f, "found"},
        Change{"deepseek4.expert_weights_scale", 2.5f, "expected 1.5, found 2.5"},
        Change{"deepseek4.rope.scaling.factor", 4.0f, "expected 16, found 4"},
        Change{"deepseek4.rope.scaling.original_context_length", 4096.0f, "65536"},
        Change{"deepseek4.rope.scaling.yarn_beta_fast", 31.0f, "expected 32"},
        Change{"deepseek4.rope.scaling.yarn_beta_slow", 2.0f, "expected 1,"},
        Change{"deepseek4.expert_gating_func", 2.0f, "expected 4, found 2"},
        Change{"deepseek4.expert_group_count", 8.0f, "expected 0, found 8"},
        Change{"deepseek4.expert_group_used_count", 4.0f, "expected 0"}}) {
    const std::string text = refusal(c.key, [&](gguf::Layout& l) { l.add_f32(c.key, c.value); });
    EXPECT_MENTIONS(text, c.key);
    EXPECT_MENTIONS(text, c.expected);
    EXPECT_MENTIONS(text, "has the shape of Nano but other constants");
  }
  EXPECT_MENTIONS(
      refusal("deepseek4.expert_weights_norm",
              [](gguf::Layout& l) { l.add_bool("deepseek4.expert_weights_norm", false); }),
      "deepseek4.expert_weights_norm: expected true, found false");
  EXPECT_MENTIONS(
      refusal("deepseek4.rope.scaling.type",
              [](gguf::Layout& l) { l.add_string("deepseek4.rope.scaling.type", "linear"); }),
      "expected yarn, found linear");
}

TEST_F(Metadata, ChangedArraysNameTheLayer) {
  const auto ratios = [&](std::vector<int32_t> values) {
    constexpr const char* kKey = "deepseek4.attention.compress_ratios";
    return refusal(kKey, [&](gguf::Layout& l) { l.add_i32s(kKey, values); });
  };
  EXPECT_MENTIONS(ratios({0, 0, 4, 128, 128, 4, 4, 128}),
                  "compress_ratios[4]: expected 4, found 128");
  EXPECT_MENTIONS(ratios({0, 0, 4, 128}), "expected 8 entries, found 4 entries");
  EXPECT_MENTIONS(ratios({0, 0, 4, 128, 4, 128, 4, -128}), "compress_ratios[7]");
  EXPECT_MENTIONS(ratios({0, 0, 4, 128, 4, 128, 4, 128, -1}), "compress_ratios[8]");
  for (const char* key : {"deepseek4.swiglu_clamp_exp", "deepseek4.swiglu_clamp_shexp"}) {
    std::vector<float> clamps(8, 10.0f);
    clamps[5] = 7.0f;
    EXPECT_MENTIONS(refusal(key, [&](gguf::Layout& l) { l.add_f32s(key, clamps); }),
                    std::string(key) + "[5]: expected 10, found 7");
    clamps.assign(7, 10.0f);
    EXPECT_MENTIONS(refusal(key, [&](gguf::Layout& l) { l.add_f32s(key, clamps); }), "8 entries");
  }
}

TEST_F(Metadata, VocabulariesThatDoNotFitAreRefused) {
  const auto refused = [&](const std::string& key,
                           const std::function<void(gguf::Layout&)>& replace) {
    const auto bytes = without({key}, replace);
    const auto file = gguf::File::parse(bytes, "patched.gguf");
    const auto config = config_from_gguf(*file);
    EXPECT_TRUE(config);
    const auto vocab = vocab_from_gguf(*file, *config);
    EXPECT_FALSE(vocab);
    return vocab ? "" : vocab.error().message;
  };
  auto tokens = small_vocab(nano_config()).tokens;
  const auto put = [&](gguf::Layout& l) { l.add_strings("tokenizer.ggml.tokens", tokens); };
  tokens.pop_back();
  EXPECT_MENTIONS(refused("tokenizer.ggml.tokens", put), "expected 4096 entries");
  tokens.push_back("x");
  tokens[6] = "not dsml";
  tokens[2] = "not user";
  const std::string text = refused("tokenizer.ggml.tokens", put);
  EXPECT_MENTIONS(text, "<｜User｜>");
  EXPECT_MENTIONS(text, "｜DSML｜");
  EXPECT_MENTIONS(refused("tokenizer.ggml.model",
                          [](gguf::Layout& l) { l.add_string("tokenizer.ggml.model", "llama"); }),
                  "llama");
  EXPECT_MENTIONS(refused("tokenizer.ggml.pre",
                          [](gguf::Layout& l) { l.add_string("tokenizer.ggml.pre", "qwen2"); }),
                  "qwen2");
}

}  // namespace
}  // namespace ds4
