// Types by recipe and by option, on Flash's own tensor list: the counts are those of published
// files.
#include "quantizer/recipe.h"

#include <gtest/gtest.h>

#include <map>

#include "gguf/writer.h"

namespace ds4 {
namespace {

#define EXPECT_MENTIONS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << "message: " << (text)

std::vector<TensorSpec> specs_of(const ModelConfig& config, bool mtp = false) {
  std::vector<TensorSpec> specs;
  Weights names;
  if (mtp) names.mtp.emplace();
  visit_weights(config, names,
                [&](const TensorSpec& spec, ConstTensor&) { specs.push_back(spec); });
  return specs;
}

// Element counts by name, and the padded size of all tensors.
std::map<std::string_view, int> count_types(const ModelConfig& config, Recipe recipe,
                                            int64_t& bytes, const TypeOverrides& overrides = {}) {
  std::map<std::string_view, int> counts;
  bytes = 0;
  for (const TensorSpec& spec : specs_of(config)) {
    const auto type = planned_type(spec, false, recipe, config.n_layers, overrides);
    EXPECT_TRUE(type) << type.error().message;
    ++counts[dtype_name(*type)];
    const int64_t n = spec.shape.n_rows() * row_bytes(*type, spec.shape.n_cols());
    bytes += (n + 31) / 32 * 32;
  }
  return counts;
}

// Published files: tensor counts by type, and bytes of padded tensor data.
TEST(Recipe, FlashAndProHaveThePublishedSizes) {
  int64_t bytes = 0;
  auto counts = count_types(flash_config(), Recipe::kQ2, bytes);
  EXPECT_EQ(counts["F16"], 359);
  EXPECT_EQ(counts["F32"], 492);
  EXPECT_EQ(counts["Q8_0"], 345);
  EXPECT_EQ(counts["I32"], 3);
  EXPECT_EQ(counts["IQ2_XXS"], 86);
  EXPECT_EQ(counts["Q2_K"], 43);
  EXPECT_EQ(bytes, 86714777664);
  count_types(flash_config(), Recipe::kQ4, bytes);
  EXPECT_EQ(bytes, 164628168768);
  count_types(flash_config(), Recipe::kMxfp4, bytes);
  EXPECT_EQ(bytes, 155971125312);
  counts = count_types(pro_config(), Recipe::kQ2, bytes);
  EXPECT_EQ(counts["F16"], 518);
  EXPECT_EQ(counts["F32"], 701);
  EXPECT_EQ(counts["Q8_0"], 489);
  EXPECT_EQ(bytes, 464621969216);
  count_types(pro_config(), Recipe::kMxfp4, bytes);
  EXPECT_EQ(bytes, 851471015744);
  count_types(pro_config(), Recipe::kQ4, bytes);
  EXPECT_EQ(bytes, 899827146560);
}

// The published mixed file has layers 37-42 in Q4_K: its padded tensor data, and 6 of 43 layers.
TEST(Recipe, MixedGivesSomeLayersTheHigherType) {
  TypeOverrides published;
  published.mixed_layers = *LayerSet::parse("37-42");
  int64_t bytes = 0;
  auto counts = count_types(flash_config(), Recipe::kMixed, bytes, published);
  EXPECT_EQ(bytes, 97586413632);
  EXPECT_EQ(counts["Q4_K"], 18);
  EXPECT_EQ(counts["IQ2_XXS"], 74);
  EXPECT_EQ(counts["Q2_K"], 37);
  // Without a list: the last sixth, at least one.
  EXPECT_EQ(default_mixed_layers(43).to_string(), "36-42");
  EXPECT_EQ(default_mixed_layers(61).to_string(), "51-60");
  EXPECT_EQ(default_mixed_layers(8).to_string(), "7");
  EXPECT_EQ(default_mixed_layers(4).to_string(), "3");
  counts = count_types(nano_config(), Recipe::kMixed, bytes);
  EXPECT_EQ(counts["Q4_K"], 3);
}

TEST(LayerSet, ReadsListsAndRefusesTheRest) {
  const auto set = LayerSet::parse("0-2,40,41-42");
  ASSERT_TRUE(set);
  for (const int64_t in : {0, 1, 2, 40, 41, 42}) EXPECT_TRUE(set->contains(in)) << in;
  for (const int64_t out : {-1, 3, 39, 43}) EXPECT_FALSE(set->contains(out)) << out;
  EXPECT_EQ(set->to_string(), "0-2,40,41-42");
  for (const char* bad :
       {"", "a", "1-", "-1", "3-2", "1,", ",1", "1 2", "1--2", "1-2-3", "99999999999999999999"}) {
    EXPECT_MENTIONS(LayerSet::parse(bad).error().message, "37-42") << bad;
  }
  EXPECT_TRUE(set->check(43));
  EXPECT_MENTIONS(set->check(42).error().message, "expected 0 .. 41, found 42");
}

TEST(Recipe, TheDraftBlockHas32Tensors) {
  const auto with = specs_of(nano_config(), true);
  EXPECT_EQ(with.size() - specs_of(nano_config()).size(), 32u);
  for (const TensorSpec& spec : with) {
    if (!spec.name.starts_with("mtp.")) continue;
    const DType type = *planned_type(spec, false, Recipe::kQ2, 8, {});
    if (is_routed(spec.kind)) {
      EXPECT_EQ(type, DType::kQ4_K) << spec.name;
    } else if (spec.kind == TensorKind::kDense) {
      EXPECT_EQ(type, DType::kF32) << spec.name;
    }
  }
}

TEST(Recipe, NamesAreKnown) {
  EXPECT_EQ(*recipe_from_name("q2"), Recipe::kQ2);
  EXPECT_EQ(*recipe_from_name("exact"), Recipe::kExact);
  EXPECT_MENTIONS(recipe_from_name("q3").error().message,
                  "exact, mxfp4, q8_0, q4, q2 or mixed, found q3");
}

DType type_of(const std::string& name, const TypeOverrides& overrides) {
  for (const TensorSpec& spec : specs_of(nano_config(), true)) {
    if (spec.name == name) return *planned_type(spec, false, Recipe::kQ2, 8, overrides);
  }
  ADD_FAILURE() << name;
  return DType::kF32;
}

TEST(TypeOverrides, TheMoreSpecialOneWins) {
  TypeOverrides o;
  o.routed = DType::kMXFP4;
  EXPECT_EQ(type_of("blk.4.ffn_gate_exps.weight", o), DType::kMXFP4);
  o.routed_down = DType::kQ4_K;
  EXPECT_EQ(type_of("blk.4.ffn_down_exps.weight", o), DType::kQ4_K);
  EXPECT_EQ(type_of("blk.4.ffn_up_exps.weight", o), DType::kMXFP4);
  o.tensors = {{"blk.4.ffn_up", DType::kQ8_0}, {"blk.4.", DType::kF16}};
  EXPECT_EQ(type_of("blk.4.ffn_up_exps.weight", o), DType::kQ8_0);
  EXPECT_EQ(type_of("blk.4.attn_kv.weight", o), DType::kF16);
  EXPECT_EQ(type_of("blk.5.attn_kv.weight", o), DType::kQ8_0);
}

TEST(TypeOverrides, FamiliesAreThoseOfTheirNames) {
  TypeOverrides o;
  o.attention_proj = DType::kBF16;
  o.attention = DType::kF32;
  o.shared = DType::kF16;
  o.embedding = DType::kBF16;
  o.output = DType::kF16;
  o.dense = DType::kBF16;
  EXPECT_EQ(type_of("blk.2.attn_q_b.weight", o), DType::kBF16);
  EXPECT_EQ(type_of("mtp.0.e_proj.weight", o), DType::kBF16);
  EXPECT_EQ(type_of("blk.2.indexer.attn_q_b.weight", o), DType::kF32);
  EXPECT_EQ(type_of("blk.2.attn_compressor_ape.weight", o), DType::kF32);
  EXPECT_EQ(type_of("blk.2.ffn_up_shexp.weight", o), DType::kF16);
  EXPECT_EQ(type_of("token_embd.weight", o), DType::kBF16);
  EXPECT_EQ(type_of("output.weight", o), DType::kF16);
  EXPECT_EQ(type_of("output_hc_fn.weight", o), DType::kBF16) << "not an output family tensor";
  EXPECT_EQ(type_of("output_norm.weight", o), DType::kF32) << "vectors stay";
  EXPECT_EQ(type_of("blk.0.ffn_gate_tid2eid.weight", o), DType::kI32);
}

// A file the engine could not load again is refused before it is made.
TEST(TypeOverrides, UnloadableTypesAreRefused) {
  const TensorSpec norm{"output_norm.weight", {256}, TensorKind::kVector};
  TypeOverrides o;
  o.tensors = {{"output", DType::kQ8_0}};
  const auto refused = planned_type(norm, false, Recipe::kQ4, 8, o);
  ASSERT_FALSE(refused);
  EXPECT_MENTIONS(refused.error().message,
                  "output_norm.weight: the engine loads F32 here, not Q8_0");
  const TensorSpec odd{"blk.0.ffn_up_exps.weight", {2, 4, 96}, TensorKind::kRoutedUp};
  EXPECT_MENTIONS(planned_type(odd, false, Recipe::kQ4, 8, {}).error().message,
                  "multiple of the Q4_K");
}

}  // namespace
}  // namespace ds4
