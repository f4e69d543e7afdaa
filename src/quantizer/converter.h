#pragma once
// An official safetensors checkpoint to a GGUF file of a recipe. Planning looks at config, names,
// shapes and types and finds everything that could go wrong without reading a weight; running reads
// each tensor once, splits it over a thread pool and writes it in place. Memory is one expert,
// encoded, per thread. The file appears under its name only when whole.
//
//   DS4_TRY(auto conversion, Conversion::plan({.hf_dir = dir, .recipe = Recipe::kExact}));
//   DS4_TRY_VOID(conversion.run("nano.gguf", {.n_threads = 0}, stop, progress));
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/writer.h"
#include "quantizer/hf_matrix.h"
#include "quantizer/progress.h"
#include "quantizer/recipe.h"

namespace ds4 {

struct PlanOptions {
  std::string hf_dir;
  Recipe recipe = Recipe::kMxfp4;
  TypeOverrides overrides;
  bool with_mtp = true;  // the draft block goes into the file when the checkpoint has one
  std::string effort_profile = "preview";  // or "official"; see quantizer/metadata.h
};

struct PlannedTensor {
  TensorSpec spec;
  DType type = DType::kF32;
  std::vector<HfMatrix> sources;  // one, or one per expert
};

class Conversion {
 public:
  // Errors: those of config_from_hf, the checkpoint, the vocabulary and planned_type.
  static Result<Conversion> plan(const PlanOptions& options);

  const ModelConfig& config() const { return config_; }
  bool has_mtp() const { return has_mtp_; }
  const std::vector<PlannedTensor>& tensors() const { return tensors_; }
  const gguf::Layout& layout() const { return layout_; }
  int64_t source_bytes() const { return checkpoint_->file_bytes(); }

  // Errors: those of gguf::Writer; kCorrupt for a damaged weight; kCancelled when `stop` was asked.
  // After any of them no file is left.
  Result<void> run(const std::string& path, const RunOptions& options, std::stop_token stop,
                   ConvertProgress& progress) const;

 private:
  explicit Conversion(std::unique_ptr<safetensors::Checkpoint> checkpoint)
      : checkpoint_(std::move(checkpoint)) {}
  Result<void> plan_tensor(const TensorSpec& spec, const PlanOptions& options);

  std::unique_ptr<safetensors::Checkpoint>
      checkpoint_;  // at a fixed address: sources point into it
  ModelConfig config_;
  bool has_mtp_ = false;
  std::vector<PlannedTensor> tensors_;
  gguf::Layout layout_;
};

}  // namespace ds4
