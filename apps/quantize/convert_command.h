#pragma once
// ds4-quantize without a sub-command: a checkpoint becomes a GGUF file.
#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "quantizer/recipe.h"

namespace ds4 {

// Flags as they were typed.
struct ConvertFlags {
  std::string hf_dir, out, template_path, recipe, mixed_layers, effort_profile = "preview";
  std::string imatrix, compare_tensor, compare_gguf;
  std::string routed, gate, down, up, attention_proj, attention, shared, embedding, output, dense;
  std::vector<std::string> tensor_types;
  int n_threads = 0;
  int64_t n_experts = 0;
  bool imatrix_strict = false;
  bool no_mtp = false;
  bool dry_run = false;
  bool overwrite = false;
};

extern const char* const kConvertAbout;
extern const char* const kConvertExamples;

void add_convert_flags(CLI::App& app, ConvertFlags& flags);

// The list of --mixed-layers, empty when it was not given. Errors: kInvalidArgument for no list, or
// another recipe.
Result<std::optional<LayerSet>> mixed_layers_from_flag(Recipe recipe, const std::string& text);

// Returns the exit code; says everything else itself.
int run_convert(const ConvertFlags& flags);

}  // namespace ds4
