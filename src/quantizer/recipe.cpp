#include "quantizer/recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "quant/codec.h"

namespace ds4 {
namespace {

DType routed_type(Recipe recipe, TensorKind kind, bool mtp) {
  switch (recipe) {
    case Recipe::kExact:
    case Recipe::kMxfp4:
      return DType::kMXFP4;
    case Recipe::kQ8_0:
      return DType::kQ8_0;
    case Recipe::kQ4:
      return DType::kQ4_K;
    case Recipe::kQ2:
      // The published draft block keeps Q4_K beside 2-bit models: it is one layer, and a draft that
      // disagrees costs more than its bytes save.
      if (mtp) return DType::kQ4_K;
      return kind == TensorKind::kRoutedDown ? DType::kQ2_K : DType::kIQ2_XXS;
    case Recipe::kMixed:
      break;  // resolved by layer before
  }
  return DType::kMXFP4;
}

// 42 of "blk.42.ffn_up_exps.weight"; -1 of a tensor that belongs to no layer.
int64_t layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  int64_t layer = -1;
  if (name.starts_with(kPrefix)) {
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), layer);
  }
  return layer;
}

DType recipe_type(const TensorSpec& spec, bool source_is_f32, Recipe recipe) {
  const bool mtp = spec.name.starts_with("mtp.");
  const DType exact = source_is_f32 ? DType::kF32 : DType::kBF16;
  const bool is_exact = recipe == Recipe::kExact;
  switch (spec.kind) {
    case TensorKind::kVector:
      return DType::kF32;
    case TensorKind::kHashIds:
      return DType::kI32;
    case TensorKind::kOutput:
    case TensorKind::kProjection:
    case TensorKind::kShared:
      return is_exact ? exact : DType::kQ8_0;
    case TensorKind::kEmbedding:
    case TensorKind::kAttention:
      return is_exact ? exact : DType::kF16;
    case TensorKind::kDense:
      return is_exact ? exact : mtp ? DType::kF32 : DType::kF16;
    case TensorKind::kRoutedGate:
    case TensorKind::kRoutedUp:
    case TensorKind::kRoutedDown:
      return routed_type(recipe, spec.kind, mtp);
  }
  return DType::kF32;
}

std::optional<TypeChoice> override_for(const TensorSpec& spec, const TypeOverrides& o) {
  for (const auto& [name, type] : o.tensors) {
    if (spec.name.starts_with(name)) return type;
  }
  const auto routed = [&](const std::optional<TypeChoice>& one) { return one ? one : o.routed; };
  switch (spec.kind) {
    case TensorKind::kRoutedGate:
      return routed(o.routed_gate);
    case TensorKind::kRoutedUp:
      return routed(o.routed_up);
    case TensorKind::kRoutedDown:
      return routed(o.routed_down);
    case TensorKind::kVector:
    case TensorKind::kHashIds:
      return std::nullopt;
    case TensorKind::kEmbedding:
      return o.embedding;
    case TensorKind::kOutput:
      return o.output;
    case TensorKind::kShared:
      return o.shared;
    case TensorKind::kProjection:
      return o.attention_proj;
    case TensorKind::kAttention:
      return o.attention;
    case TensorKind::kDense:
      return o.dense;
  }
  return std::nullopt;
}

}  // namespace

Result<Recipe> recipe_from_name(std::string_view name) {
  if (name == "exact") return Recipe::kExact;
  if (name == "mxfp4") return Recipe::kMxfp4;
  if (name == "q8_0") return Recipe::kQ8_0;
  if (name == "q4") return Recipe::kQ4;
  if (name == "q2") return Recipe::kQ2;
  if (name == "mixed") return Recipe::kMixed;
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("recipe: expected exact, mxfp4, q8_0, q4, q2 or mixed, found {}", name));
}

LayerSet default_mixed_layers(int64_t n_layers) {
  const int64_t n = std::max<int64_t>(1, n_layers / 6);
  return LayerSet::range(n_layers - n, n_layers - 1);
}

Result<TypeChoice> type_choice_from_name(std::string_view name) {
  if (name == "copy" || name == "template") return TypeChoice();
  DS4_TRY(const DType type, dtype_from_name(name));
  return TypeChoice(type);
}

Result<DType> planned_type(const TensorSpec& spec, bool source_is_f32, Recipe recipe,
                           int64_t n_layers, const TypeOverrides& overrides) {
  if (recipe == Recipe::kMixed) {
    const LayerSet high =
        overrides.mixed_layers ? *overrides.mixed_layers : default_mixed_layers(n_layers);
    DS4_TRY_VOID(high.check(n_layers));
    recipe = high.contains(layer_of(spec.name)) ? Recipe::kQ4 : Recipe::kQ2;
  }
  return planned_type(spec, recipe_type(spec, source_is_f32, recipe), overrides);
}

Result<DType> planned_type(const TensorSpec& spec, DType template_type,
                           const TypeOverrides& overrides) {
  const TypeChoice choice = override_for(spec, overrides).value_or(TypeChoice());
  const DType type = choice.type.value_or(template_type);
  const auto accepted = accepted_types(spec.kind);
  if (std::find(accepted.begin(), accepted.end(), type) == accepted.end()) {
    std::vector<std::string_view> names;
    for (const DType t : accepted) names.push_back(dtype_name(t));
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: the engine loads {} here, not {}", spec.name,
                            fmt::join(names, ", "), dtype_name(type)));
  }
  const int64_t block = dtype_info(type).block_elems;
  if (spec.shape.n_cols() % block != 0) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: rows of {} values are not a multiple of the {} block of {}",
                            spec.name, spec.shape.n_cols(), dtype_name(type), block));
  }
  return type;
}

}  // namespace ds4
