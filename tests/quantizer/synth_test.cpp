// Synthetic models: the plan against the sizes of published files, routing on purpose even or
// skewed, and Nano written for real, with different numbers of threads.
#include "quantizer/synth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <set>

#include "model/model.h"

namespace ds4 {
namespace {

namespace fs = std::filesystem;

#define EXPECT_MENTIONS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << "message: " << (text)

Synth planned(const char* shape, Recipe recipe, const TypeOverrides& overrides = {}) {
  auto synth =
      Synth::plan({.config = *config_from_shape(shape), .recipe = recipe, .overrides = overrides});
  EXPECT_TRUE(synth) << synth.error().message;
  return std::move(*synth);
}

std::map<std::string_view, int> types_of(const gguf::Layout& layout) {
  std::map<std::string_view, int> counts;
  for (int i = 0; i < layout.n_tensors(); ++i) ++counts[dtype_name(layout.tensor_type(i))];
  return counts;
}

TEST(SynthPlan, ShapesAreReadByName) {
  EXPECT_EQ(config_from_shape("flash")->n_layers, 43);
  EXPECT_FALSE(config_from_shape("flash")->is_slice());
  EXPECT_EQ(config_from_shape("pro")->n_layers, 61);
  EXPECT_EQ(config_from_shape("nano")->n_layers, 8);
  const auto slice = config_from_shape("flash:LAYERS=4");
  ASSERT_TRUE(slice);
  EXPECT_EQ(slice->n_layers, 4);
  EXPECT_EQ(slice->slice_of_layers, 43);
  for (const char* bad : {"", "Flash", "mini", "flash:", "flash:4", "flash:LAYERS=",
                          "flash:LAYERS=0", "flash:LAYERS=43", "flash:LAYERS=-1", "flash:LAYERS=4x",
                          "flash:layers=4", "flash:LAYERS=99999999999999999999"}) {
    const auto refused = config_from_shape(bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_MENTIONS(refused.error().message, "LAYERS=") << bad;
  }
}

// Tensor counts and padded bytes of the published files (docs/formats/gguf.md).
TEST(SynthPlan, HasThePublishedTensorsAndSizes) {
  TypeOverrides published;
  published.mixed_layers = *LayerSet::parse("37-42");
  struct Case {
    const char* shape;
    Recipe recipe;
    int64_t data_bytes;
    int n_tensors, n_f16, n_f32, n_q8_0, n_routed;
  };
  for (const Case& c : {Case{"flash", Recipe::kQ2, 86714777664, 1328, 359, 492, 345, 129},
                        Case{"flash", Recipe::kMixed, 97586413632, 1328, 359, 492, 345, 129},
                        Case{"flash", Recipe::kMxfp4, 155971125312, 1328, 359, 492, 345, 129},
                        Case{"flash", Recipe::kQ4, 164628168768, 1328, 359, 492, 345, 129},
                        Case{"pro", Recipe::kQ2, 464621969216, 1894, 518, 701, 489, 183},
                        Case{"pro", Recipe::kMxfp4, 851471015744, 1894, 518, 701, 489, 183},
                        Case{"pro", Recipe::kQ4, 899827146560, 1894, 518, 701, 489, 183}}) {
    SCOPED_TRACE(std::string(c.shape) + " " + std::to_string(c.data_bytes));
    const Synth synth = planned(c.shape, c.recipe, published);
    const gguf::Layout& layout = synth.layout();
    EXPECT_EQ(layout.file_bytes() - layout.data_start(), c.data_bytes);
    EXPECT_EQ(layout.n_tensors(), c.n_tensors);
    auto counts = types_of(layout);
    EXPECT_EQ(counts["F16"], c.n_f16);
    EXPECT_EQ(counts["F32"], c.n_f32);
    EXPECT_EQ(counts["Q8_0"], c.n_q8_0);
    EXPECT_EQ(counts["I32"], 3);
    EXPECT_EQ(counts["IQ2_XXS"] + counts["Q2_K"] + counts["Q4_K"] + counts["MXFP4"], c.n_routed);
  }
}

// The loads of a table of expert ids over the whole vocabulary: choices by expert.
std::vector<int64_t> hash_loads(Routing routing, uint64_t seed) {
  const ModelConfig& c = flash_config();
  const TensorSpec spec{
      "blk.1.ffn_gate_tid2eid.weight", {c.vocab_size, c.n_experts_used}, TensorKind::kHashIds};
  const SynthTensor tensor(spec, DType::kI32, c, routing, seed);
  std::vector<int32_t> ids(static_cast<size_t>(c.vocab_size * c.n_experts_used));
  tensor.fill(0, c.vocab_size, reinterpret_cast<std::byte*>(ids.data()));
  std::vector<int64_t> loads(static_cast<size_t>(c.n_experts), 0);
  for (size_t at = 0; at < ids.size(); at += 6) {
    const std::set<int32_t> distinct(ids.begin() + static_cast<int64_t>(at),
                                     ids.begin() + static_cast<int64_t>(at) + 6);
    EXPECT_EQ(distinct.size(), 6u) << "token " << at / 6;
    for (const int32_t id : distinct) {
      EXPECT_TRUE(id >= 0 && id < c.n_experts);
      ++loads[static_cast<size_t>(id)];
    }
  }
  return loads;
}

// 3030 choices an expert when even, +- 55; six sigma are 11 %.
TEST(SynthRouting, HashIdsAreDistinctAndAsEvenAsWanted) {
  const auto even = hash_loads(Routing::kUniform, 1);
  const auto [least, most] = std::minmax_element(even.begin(), even.end());
  EXPECT_GT(*least, 3030 * 0.89);
  EXPECT_LT(*most, 3030 * 1.11);
  const auto skewed = hash_loads(Routing::kSkewed, 1);
  const auto [rarest, hottest] = std::minmax_element(skewed.begin(), skewed.end());
  EXPECT_GT(*rarest, 300) << "every expert is used";
  EXPECT_GT(*hottest, 4 * 3030);
  const auto other = hash_loads(Routing::kSkewed, 2);
  EXPECT_NE(std::max_element(other.begin(), other.end()) - other.begin(), hottest - skewed.begin())
      << "which expert is hot depends on the seed";
}

TEST(SynthRouting, BiasesAreZeroOrFewAreLarge) {
  const ModelConfig& c = flash_config();
  const TensorSpec spec{"blk.5.exp_probs_b.bias", {c.n_experts}, TensorKind::kVector};
  std::vector<float> bias(static_cast<size_t>(c.n_experts), -1.0f);
  SynthTensor(spec, DType::kF32, c, Routing::kUniform, 1)
      .fill(0, 1, reinterpret_cast<std::byte*>(bias.data()));
  EXPECT_EQ(bias, std::vector<float>(bias.size(), 0.0f));
  SynthTensor(spec, DType::kF32, c, Routing::kSkewed, 1)
      .fill(0, 1, reinterpret_cast<std::byte*>(bias.data()));
  EXPECT_EQ(std::count_if(bias.begin(), bias.end(), [](float b) { return b >= 0.15f; }), 7);
  EXPECT_GT(*std::min_element(bias.begin(), bias.end()), 0.0f);
  EXPECT_EQ(routing_name(*routing_from_name("skewed")), "skewed");
  EXPECT_MENTIONS(routing_from_name("zipf").error().message, "uniform or skewed, found zipf");
}

class SynthFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(DS4_BINARY_DIR) / "synth_test";
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const char* name) const { return (folder_ / name).string(); }

  Result<void> write(const char* name, SynthOptions options, int n_threads = 2) const {
    if (options.config.n_layers == 0) options.config = nano_config();
    DS4_TRY(const Synth synth, Synth::plan(options));
    ConvertProgress progress;
    DS4_TRY_VOID(synth.run(path(name), {.n_threads = n_threads}, {}, progress));
    if (!options.sparse) {
      EXPECT_EQ(progress.bytes_done, synth.layout().tensor_bytes());
      EXPECT_EQ(progress.tensors_done, synth.layout().n_tensors());
    }
    return {};
  }
  std::string bytes_of(const char* name) const {
    std::ifstream file(path(name), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  fs::path folder_;
};

TEST_F(SynthFile, IsTheSameForAnyNumberOfThreads) {
  ASSERT_TRUE(write("1.gguf", {}, 1));
  ASSERT_TRUE(write("2.gguf", {}, 2));
  ASSERT_TRUE(write("3.gguf", {}, 3));
  const std::string one = bytes_of("1.gguf");
  EXPECT_TRUE(one == bytes_of("2.gguf"));
  EXPECT_TRUE(one == bytes_of("3.gguf"));
  ASSERT_TRUE(write("other.gguf", {.seed = 2}));
  const std::string other = bytes_of("other.gguf");
  ASSERT_EQ(one.size(), other.size());
  size_t n_equal = 0;
  for (size_t i = 0; i < one.size(); ++i) n_equal += one[i] == other[i] ? 1 : 0;
  EXPECT_LT(n_equal, one.size() / 4) << "another seed is another model";
}

TEST_F(SynthFile, LoadsAsAWholeModel) {
  for (const Recipe recipe :
       {Recipe::kQ2, Recipe::kQ4, Recipe::kMxfp4, Recipe::kMixed, Recipe::kQ8_0, Recipe::kExact}) {
    const std::string name = std::to_string(static_cast<int>(recipe)) + ".gguf";
    const auto done = write(name.c_str(), {.recipe = recipe});
    ASSERT_TRUE(done) << done.error().message;
    const auto model = Model::open(path(name.c_str()));
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->config().name, "Nano");
    EXPECT_EQ(model->general_name(), "DeepSeek V4 Nano, synthetic");
    EXPECT_EQ(model->vocab().merges.size(), 3827u);
    EXPECT_FALSE(model->has_mtp());
    EXPECT_EQ(model->file().find(kSynthSeedKey)->as_int(), 1);
    EXPECT_EQ(model->file().find(kSynthDataKey)->as_string(), "random");
  }
}

// So that a slice's measurements and outputs are those of the model's first layers.
TEST_F(SynthFile, ASliceHasTheWeightsOfTheModelsFirstLayers) {
  ASSERT_TRUE(write("whole.gguf", {}));
  ASSERT_TRUE(write("slice.gguf", {.config = slice_of(nano_config(), 4)}));
  EXPECT_MENTIONS(Model::open(path("slice.gguf")).error().message,
                  "the first 4 of the 8 layers of Nano");
  const auto slice = Model::open(path("slice.gguf"), {.allow_slice = true});
  ASSERT_TRUE(slice) << slice.error().message;
  EXPECT_EQ(slice->config().n_layers, 4);
  EXPECT_EQ(slice->weights().layers.size(), 4u);
  const auto whole = Model::open(path("whole.gguf"));
  ASSERT_TRUE(whole);
  for (const gguf::TensorInfo& tensor : slice->file().tensors()) {
    const gguf::TensorInfo* other = whole->file().find_tensor(tensor.name);
    ASSERT_NE(other, nullptr) << tensor.name;
    ASSERT_EQ(*other->bytes, *tensor.bytes) << tensor.name;
    EXPECT_EQ(std::memcmp(other->data, tensor.data, static_cast<size_t>(*tensor.bytes)), 0)
        << tensor.name;
  }
}

TEST_F(SynthFile, ExpertsDiffer) {
  ASSERT_TRUE(write("nano.gguf", {}));
  const auto model = Model::open(path("nano.gguf"));
  ASSERT_TRUE(model);
  std::set<std::string> experts;
  for (const LayerWeights& layer : model->weights().layers) {
    for (const ConstTensor* stack : {&layer.moe.gate, &layer.moe.up, &layer.moe.down}) {
      const int64_t bytes = stack->n_rows() * row_bytes(stack->dtype(), stack->n_cols()) / 16;
      for (int64_t e = 0; e < 16; ++e) {
        experts.emplace(reinterpret_cast<const char*>(stack->data()) + e * bytes,
                        static_cast<size_t>(bytes));
      }
    }
  }
  EXPECT_EQ(experts.size(), 8u * 3 * 16);
}

TEST_F(SynthFile, ASparseFileHasItsSizeAndNoData) {
  ASSERT_TRUE(write("full.gguf", {}));
  ASSERT_TRUE(write("sparse.gguf", {.sparse = true}));
  const auto model = Model::open(path("sparse.gguf"));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->file().find(kSynthDataKey)->as_string(), "none");
  const int64_t data = model->file().file_bytes() - model->file().data_start();
  const auto full = Model::open(path("full.gguf"));
  EXPECT_EQ(data, full->file().file_bytes() - full->file().data_start());
}

TEST_F(SynthFile, StoppedOrRefusedLeavesNothing) {
  const auto synth = Synth::plan({.config = nano_config()});
  ASSERT_TRUE(synth);
  std::stop_source stop;
  stop.request_stop();
  ConvertProgress progress;
  const auto cancelled = synth->run(path("x.gguf"), {}, stop.get_token(), progress);
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, ErrorCode::kCancelled);
  EXPECT_TRUE(fs::is_empty(folder_));

  std::ofstream(path("there.gguf")) << "precious";
  for (const bool sparse : {false, true}) {
    const auto again = write("there.gguf", {.sparse = sparse});
    ASSERT_FALSE(again);
    EXPECT_MENTIONS(again.error().message, "already exists");
  }
  EXPECT_EQ(bytes_of("there.gguf"), "precious");
}

}  // namespace
}  // namespace ds4
