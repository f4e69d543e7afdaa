// Binding a model made in memory: fields get their tensors, and everything that does not fit is
// told in one message.
#include "model/weights.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "model/tensor_table.h"

namespace ds4 {
namespace {

#define EXPECT_MENTIONS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << "message: " << (text)

ModelConfig tiny_config() {
  ModelConfig c;
  c.name = "tiny";
  c.n_layers = 5;
  c.hidden = 64;
  c.vocab_size = 40;
  c.n_heads = 4;
  c.head_dim = 32;
  c.rope_head_dim = 8;
  c.q_lora_rank = 32;
  c.o_groups = 2;
  c.o_lora_rank = 16;
  c.compress_ratios = {0, 0, 4, 128, 4};
  c.index_n_heads = 2;
  c.index_head_dim = 16;
  c.index_topk = 8;
  c.n_experts = 3;
  c.n_experts_used = 2;
  c.expert_ffn = 32;
  return c;
}

// Arrays by name, as a test's stand-in for a file.
class MemoryModel {
 public:
  explicit MemoryModel(const ModelConfig& config, bool mtp = false) : config_(config) {
    Weights names;
    if (mtp) names.mtp.emplace();
    visit_weights(config, names, [&](const TensorSpec& spec, ConstTensor&) {
      put(spec.name, spec.kind == TensorKind::kHashIds ? DType::kI32 : DType::kF32, spec.shape);
    });
  }
  void put(const std::string& name, DType type, const Shape& shape) {
    Entry& entry = entries_[name];
    entry.bytes.assign(static_cast<size_t>(shape.n_rows() * row_bytes(type, shape.n_cols())),
                       std::byte{0});
    entry.tensor = ConstTensor(entry.bytes.data(), type, shape);
  }
  void erase(const std::string& name) { entries_.erase(name); }
  void make_unusable(const std::string& name, const std::string& type) {
    erase(name);
    unusable_[name] = type;
  }
  template <typename T>
  void set(const std::string& name, size_t at, T value) {
    std::memcpy(entries_.at(name).bytes.data() + at * sizeof(T), &value, sizeof(T));
  }
  size_t size() const { return entries_.size(); }

  TensorLookup lookup() const {
    return [this](std::string_view name) -> std::optional<ConstTensor> {
      const auto found = entries_.find(std::string(name));
      if (found == entries_.end()) return std::nullopt;
      return found->second.tensor;
    };
  }
  UnusableLookup unusable() const {
    return [this](std::string_view name) -> std::optional<std::string> {
      const auto found = unusable_.find(std::string(name));
      if (found == unusable_.end()) return std::nullopt;
      return found->second;
    };
  }
  Result<Weights> bind() const { return bind_weights(config_, lookup(), unusable()); }
  std::string refusal() const {
    const auto weights = bind();
    EXPECT_FALSE(weights);
    return weights ? "" : weights.error().message;
  }

 private:
  struct Entry {
    std::vector<std::byte> bytes;
    ConstTensor tensor;
  };
  ModelConfig config_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> unusable_;
};

TEST(BindWeights, FillsEveryFieldOfItsLayer) {
  const ModelConfig config = tiny_config();
  const MemoryModel model(config);
  const auto weights = model.bind();
  ASSERT_TRUE(weights) << weights.error().message;
  ASSERT_EQ(weights->layers.size(), 5u);
  EXPECT_FALSE(weights->mtp);
  const LayerWeights& plain = weights->layers[0];
  EXPECT_TRUE(plain.compressor.kv.empty());
  EXPECT_TRUE(plain.indexer.q_b.empty());
  EXPECT_EQ(plain.moe.hash_ids.shape(), (Shape{40, 2}));
  EXPECT_TRUE(plain.moe.router_bias.empty());
  const LayerWeights& hca = weights->layers[3];
  EXPECT_EQ(hca.compress_ratio, 128);
  EXPECT_EQ(hca.compressor.ape.shape(), (Shape{128, 32}));
  EXPECT_TRUE(hca.indexer.proj.empty());
  EXPECT_TRUE(hca.moe.hash_ids.empty());
  EXPECT_EQ(hca.moe.router_bias.shape(), (Shape{3}));
  const LayerWeights& csa = weights->layers[4];
  EXPECT_EQ(csa.compressor.kv.shape(), (Shape{64, 64}));
  EXPECT_EQ(csa.indexer.compressor.ape.shape(), (Shape{4, 32}));
  EXPECT_EQ(csa.moe.down.shape(), (Shape{3, 64, 32}));
  EXPECT_EQ(csa.attn_hc.fn.shape(), (Shape{24, 256}));
  EXPECT_EQ(weights->output_hc.scale.shape(), (Shape{1}));
}

TEST(BindWeights, ReportsEverythingAtOnce) {
  MemoryModel model(tiny_config());
  model.erase("blk.0.attn_norm.weight");
  model.erase("output.weight");
  model.put("blk.1.attn_kv.weight", DType::kF32, {32, 63});
  model.put("blk.2.attn_sinks.weight", DType::kF16, {4});
  model.make_unusable("blk.3.attn_q_a.weight", "Q6_K");
  const std::string text = model.refusal();
  EXPECT_MENTIONS(text, "5 tensors do not fit");
  EXPECT_MENTIONS(text, "blk.0.attn_norm.weight is missing");
  EXPECT_MENTIONS(text, "output.weight is missing");
  EXPECT_MENTIONS(text, "blk.1.attn_kv.weight has shape [32, 63], expected [32, 64]");
  EXPECT_MENTIONS(text, "blk.2.attn_sinks.weight has type F16, expected F32");
  EXPECT_MENTIONS(text, "blk.3.attn_q_a.weight has type Q6_K, expected Q8_0, F16, BF16, F32");
}

TEST(BindWeights, CountsWhatItDoesNotList) {
  const ModelConfig config = tiny_config();
  const auto weights = bind_weights(config, [](std::string_view) { return std::nullopt; });
  ASSERT_FALSE(weights);
  const size_t n = MemoryModel(config).size();
  EXPECT_MENTIONS(weights.error().message, fmt::format("{} tensors do not fit", n));
  EXPECT_MENTIONS(weights.error().message, fmt::format("and {} more", n - 20));
}

TEST(BindWeights, GateAndUpMustAgreeButLayersMayDiffer) {
  const ModelConfig config = tiny_config();
  MemoryModel model(config);
  for (const char* role : {"gate", "up"}) {
    model.put(fmt::format("blk.1.ffn_{}_exps.weight", role), DType::kMXFP4, {3, 32, 64});
  }
  model.put("blk.1.ffn_down_exps.weight", DType::kQ8_0, {3, 64, 32});
  EXPECT_TRUE(model.bind());
  model.put("blk.1.ffn_up_exps.weight", DType::kQ8_0, {3, 32, 64});
  EXPECT_MENTIONS(model.refusal(), "blk.1.ffn_gate_exps.weight is MXFP4 but");
}

TEST(BindWeights, RefusesExpertIdsOutsideTheTable) {
  MemoryModel model(tiny_config());
  model.set<int32_t>("blk.1.ffn_gate_tid2eid.weight", 7, 3);
  EXPECT_MENTIONS(
      model.refusal(),
      "blk.1.ffn_gate_tid2eid.weight: token 3 entry 1: expert id 0..2 expected, found 3");
  model.set<int32_t>("blk.1.ffn_gate_tid2eid.weight", 7, -1);
  EXPECT_MENTIONS(model.refusal(), "found -1");
}

// What the metadata says about draft layers does not matter.
TEST(BindWeights, TensorsDecideAboutMtp) {
  const ModelConfig config = tiny_config();
  MemoryModel with(config, true);
  const auto weights = with.bind();
  ASSERT_TRUE(weights) << weights.error().message;
  ASSERT_TRUE(weights->mtp);
  EXPECT_EQ(weights->mtp->e_proj.shape(), (Shape{64, 64}));
  EXPECT_EQ(weights->mtp->layer.compress_ratio, 0);
  EXPECT_EQ(weights->mtp->layer.moe.router_bias.shape(), (Shape{3}));
  EXPECT_TRUE(bind_mtp(config, with.lookup()));

  // A damaged block is an error, not a model without one.
  with.erase("mtp.0.hnorm.weight");
  EXPECT_MENTIONS(with.refusal(), "mtp.0.hnorm.weight is missing");
  MemoryModel dspark(config, true);
  dspark.put("mtp.0.main_proj.weight", DType::kF32, {64, 64});
  EXPECT_MENTIONS(dspark.refusal(), "DSpark");
  EXPECT_FALSE(bind_mtp(config, dspark.lookup()));
}

}  // namespace
}  // namespace ds4
