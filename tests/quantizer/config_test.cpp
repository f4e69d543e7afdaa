// config.json of a checkpoint: Nano's own is taken, each changed field is refused by name.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "quantizer/hf_config.h"

namespace ds4 {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

#define EXPECT_MENTIONS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << "message: " << (text)

class HfConfig : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(DS4_BINARY_DIR) / "hf_config_test";
    fs::create_directories(folder_);
    std::ifstream stream(DS4_SOURCE_DIR "/models/nano/config.json");
    nano_ = json::parse(stream);
  }
  void TearDown() override { fs::remove_all(folder_); }

  Result<ModelConfig> read(const std::string& text) const {
    std::ofstream(folder_ / "config.json") << text;
    return config_from_hf(folder_.string());
  }
  std::string refusal(const json& config) const {
    const auto result = read(config.dump());
    EXPECT_FALSE(result) << config.dump();
    return result ? "" : result.error().message;
  }

  fs::path folder_;
  json nano_;
};

TEST_F(HfConfig, NanoIsRecognised) {
  const auto config = read(nano_.dump());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->name, "Nano");
  nano_["max_position_embeddings"] = 4096;
  EXPECT_EQ(read(nano_.dump())->max_position, 4096);
}

TEST_F(HfConfig, EachChangedNumberIsNamed) {
  for (const char* key : {"num_hidden_layers",
                          "hidden_size",
                          "vocab_size",
                          "num_attention_heads",
                          "head_dim",
                          "qk_rope_head_dim",
                          "q_lora_rank",
                          "o_groups",
                          "o_lora_rank",
                          "n_routed_experts",
                          "num_experts_per_tok",
                          "n_shared_experts",
                          "moe_intermediate_size",
                          "num_hash_layers",
                          "sliding_window",
                          "index_n_heads",
                          "index_head_dim",
                          "index_topk",
                          "hc_mult",
                          "hc_sinkhorn_iters",
                          "routed_scaling_factor",
                          "swiglu_limit",
                          "hc_eps",
                          "rms_norm_eps",
                          "rope_theta",
                          "compress_rope_theta"}) {
    json changed = nano_;
    changed[key] = 77;
    EXPECT_MENTIONS(refusal(changed), std::string(key) + " (Nano): expected");
    EXPECT_MENTIONS(refusal(changed), "found 77");
    changed.erase(key);
    EXPECT_MENTIONS(refusal(changed), std::string(key) + " (Nano): expected");
  }
  json changed = nano_;
  changed["rope_scaling"]["factor"] = 4;
  EXPECT_MENTIONS(refusal(changed), "rope_scaling/factor (Nano): expected 16, found 4");
  changed = nano_;
  changed["compress_ratios"][3] = 4;
  EXPECT_MENTIONS(refusal(changed), "compress_ratios[3] (Nano): expected 128, found 4");
}

TEST_F(HfConfig, OtherMeaningsAreRefused) {
  const auto with = [&](const char* key, json value) {
    json changed = nano_;
    changed[key] = std::move(value);
    return refusal(changed);
  };
  EXPECT_MENTIONS(with("scoring_func", "sigmoid"),
                  "scoring_func (Nano): expected \"sqrtsoftplus\"");
  EXPECT_MENTIONS(with("norm_topk_prob", false),
                  "norm_topk_prob (Nano): expected true, found false");
  EXPECT_MENTIONS(with("model_type", "deepseek_v3"), "expected \"deepseek_v4\"");
  EXPECT_MENTIONS(with("num_key_value_heads", 4), "num_key_value_heads");
  EXPECT_MENTIONS(with("n_group", 8), "n_group (Nano): expected none, found 8");
  EXPECT_MENTIONS(with("expert_dtype", "fp8"), "expert_dtype");
  json tiles = nano_;
  tiles["quantization_config"]["weight_block_size"] = {32, 32};
  EXPECT_MENTIONS(refusal(tiles), "weight_block_size (Nano): expected [128,128], found [32,32]");
}

TEST_F(HfConfig, OtherTextIsRefused) {
  EXPECT_FALSE(read(""));
  EXPECT_FALSE(read("[]"));
  EXPECT_FALSE(read("{"));
  EXPECT_FALSE(read(std::string(100000, '[')));
  EXPECT_FALSE(read("{\"a\":" + std::string(500000, '[') + std::string(500000, ']') + "}"));
  EXPECT_FALSE(read(std::string(2 << 20, ' ')));
  EXPECT_FALSE(read(R"({"rope_scaling": [1, 2], "num_hidden_layers": "8"})"));
  fs::remove(folder_ / "config.json");
  EXPECT_EQ(config_from_hf(folder_.string()).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace ds4
