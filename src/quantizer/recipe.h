#pragma once
// Which type each tensor gets. A recipe is a family of files people know by name; options move a
// family of tensors, or one tensor, to another type. First match wins: a named tensor, the routed
// experts, then vectors (always F32) and ids (always I32), then the families, then the recipe.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/tensor_table.h"
#include "quantizer/layer_set.h"
#include "tensor/dtype.h"

namespace ds4 {

enum class Recipe {
  kExact,  // nothing is lost: FP4 experts as MXFP4, FP8 and BF16 as BF16, F32 stays
  kMxfp4,  // experts as MXFP4 without loss; Q8_0 projections, F16 elsewhere, as in all that follow
  kQ8_0,   // experts Q8_0
  kQ4,     // experts Q4_K
  kQ2,     // experts IQ2_XXS (gate, up) and Q2_K (down)
  kMixed,  // experts of some layers as in kQ4, of the others as in kQ2
};

// "exact", "mxfp4", "q8_0", "q4", "q2", "mixed". Errors: kInvalidArgument with that list.
Result<Recipe> recipe_from_name(std::string_view name);

// The layers that kMixed gives the higher type when nobody says which: the last sixth, at least
// one.
LayerSet default_mixed_layers(int64_t n_layers);

// What an option asks for: a type, or (empty) what the template, or the recipe, has.
struct TypeChoice {
  TypeChoice() = default;
  TypeChoice(DType t) : type(t) {}  // NOLINT: a type is a choice
  std::optional<DType> type;
};

// "copy" and "template" keep; the rest is dtype_from_name().
Result<TypeChoice> type_choice_from_name(std::string_view name);

struct TypeOverrides {
  std::optional<LayerSet> mixed_layers;  // of kMixed; unset: default_mixed_layers()
  std::optional<TypeChoice> routed;      // all three; the next three win over it
  std::optional<TypeChoice> routed_gate;
  std::optional<TypeChoice> routed_up;
  std::optional<TypeChoice> routed_down;
  // attn_q_a, attn_q_b, attn_kv, attn_output_*, MTP e_proj, h_proj
  std::optional<TypeChoice> attention_proj;
  std::optional<TypeChoice> attention;  // compressor and indexer matrices
  std::optional<TypeChoice> shared;     // shared experts
  std::optional<TypeChoice> embedding;  // token_embd
  std::optional<TypeChoice> output;     // output
  std::optional<TypeChoice> dense;      // hyper-connection mixes and router
  // GGUF name or a prefix of names ("blk.3."); the first that matches counts.
  std::vector<std::pair<std::string, TypeChoice>> tensors;
};

// The type `spec` is written as. `source_is_f32`: the checkpoint holds it in F32, which the exact
// recipe keeps. `n_layers` is the model's. Errors: kInvalidArgument when the engine could not load
// the result, or when rows are not a multiple of the type's block; names the tensor and the
// accepted types.
Result<DType> planned_type(const TensorSpec& spec, bool source_is_f32, Recipe recipe,
                           int64_t n_layers, const TypeOverrides& overrides);

// The same where a template says what the tensor was.
Result<DType> planned_type(const TensorSpec& spec, DType template_type,
                           const TypeOverrides& overrides);

}  // namespace ds4
