// BC-16: routed experts of every type a loader accepts, a different one in each layer of one file.
// A type whose kernel is missing or wrong would show as NaN or as another text, not as an error.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "quantizer/converter.h"
#include "tests/support/compare.h"
#include "tests/support/nano.h"
#include "tests/support/runner.h"

namespace ds4::test {
namespace {

namespace fs = std::filesystem;

struct LayerTypes {
  DType gate_and_up, down;
};
constexpr LayerTypes kLayers[] = {{DType::kQ4_K, DType::kQ4_K},     {DType::kMXFP4, DType::kQ8_0},
                                  {DType::kIQ2_XXS, DType::kQ2_K},  {DType::kQ8_0, DType::kMXFP4},
                                  {DType::kQ2_K, DType::kIQ2_XXS},  {DType::kQ4_K, DType::kQ2_K},
                                  {DType::kMXFP4, DType::kIQ2_XXS}, {DType::kQ8_0, DType::kQ4_K}};

std::string mixed_nano() {
  PlanOptions options{
      .hf_dir = DS4_SOURCE_DIR "/models/nano", .recipe = Recipe::kQ8_0, .overrides = {}};
  for (size_t layer = 0; layer < std::size(kLayers); ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".ffn_";
    options.overrides.tensors.emplace_back(block + "gate_exps", kLayers[layer].gate_and_up);
    options.overrides.tensors.emplace_back(block + "up_exps", kLayers[layer].gate_and_up);
    options.overrides.tensors.emplace_back(block + "down_exps", kLayers[layer].down);
  }
  const fs::path path = fs::path(DS4_BINARY_DIR) / "expert_types_test.gguf";
  const Conversion conversion = must(Conversion::plan(options));
  ConvertProgress progress;
  must(conversion.run(path.string(), {.overwrite = true}, {}, progress));
  return path.string();
}

TEST(ExpertTypes, EveryTypeAndAMixturePerLayerAgreesWithTheReference) {
  const std::string path = mixed_nano();
  const Model model = must(Model::open(path));
  for (size_t layer = 0; layer < std::size(kLayers); ++layer) {
    const MoeWeights& moe = model.weights().layers[layer].moe;
    ASSERT_EQ(moe.gate.dtype(), kLayers[layer].gate_and_up);
    ASSERT_EQ(moe.down.dtype(), kLayers[layer].down);
  }
  std::vector<Token> ids = NanoReference::open().prompt("win127").ids;
  ids.resize(32);
  const auto n = static_cast<int64_t>(ids.size());
  const auto vocab = static_cast<size_t>(model.config().vocab_size);
  for (const Precision precision : {Precision::hf32(), Precision::official()}) {
    const Runner::Options options = {.precision = precision, .max_logit_rows = 64};
    Runner cpu(BackendKind::kCpu, model.config(), model.weights(), options);
    Runner exact(BackendKind::kReference, model.config(), model.weights(), options);
    KvCache cpu_cache = cpu.new_cache(n), exact_cache = exact.new_cache(n);
    const std::vector<float> got = cpu.prefill(cpu_cache, ids, n);
    const std::vector<float> want = exact.prefill(exact_cache, ids, n);
    ASSERT_EQ(got.size(), want.size());
    EXPECT_TRUE(std::all_of(got.begin(), got.end(), [](float v) { return std::isfinite(v); }));
    LogitDiff worst;
    double kl_sum = 0;
    for (size_t at = 0; at < want.size(); at += vocab) {
      const LogitDiff diff =
          compare_logits(std::span(got).subspan(at, vocab), std::span(want).subspan(at, vocab));
      worst.take_worse(diff);
      kl_sum += diff.kl;
    }
    const double mean_kl = kl_sum * static_cast<double>(vocab) / static_cast<double>(want.size());
    const bool official = precision == Precision::official();
    std::printf("%s: worst %s, mean KL %.3g\n", official ? "official" : "hf32",
                worst.to_string().c_str(), mean_kl);
    if (official) {  // integer activations: the bounds of recipe q2 (cpu_quality_test.cpp)
      EXPECT_LE(mean_kl, 1.3e-3);
      EXPECT_LE(worst.kl, 0.104);
    } else {  // the order of f32 sums: 4.8e-7 measured
      EXPECT_LE(worst.relative_l2, 1e-5);
    }
  }
  fs::remove(path);
}

}  // namespace
}  // namespace ds4::test
