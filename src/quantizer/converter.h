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
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/file.h"
#include "gguf/writer.h"
#include "quantizer/hf_matrix.h"
#include "quantizer/imatrix.h"
#include "quantizer/progress.h"
#include "quantizer/recipe.h"

namespace ds4 {

struct PlanOptions {
  std::string hf_dir;
  // A GGUF file of the same model: metadata, order and types are its own, and `recipe`,
  // `with_mtp` and `effort_profile` have no meaning. Empty: the recipe decides.
  std::string template_path;
  Recipe recipe = Recipe::kMxfp4;
  TypeOverrides overrides;
  bool with_mtp = true;  // the draft block goes into the file when the checkpoint has one
  std::string effort_profile = "preview";  // or "official"; see quantizer/metadata.h
  std::string imatrix_path;                // empty: none
  bool imatrix_strict = false;             // a tensor that could use it and is not in it: an error
};

struct PlannedTensor {
  TensorSpec spec;
  DType type = DType::kF32;
  std::vector<HfMatrix> sources;  // one, or one per expert
  // Measured importance of the columns of each source; empty where there is none.
  std::vector<std::span<const float>> importance;
};

// One tensor, made again and held against a file.
struct TensorComparison {
  int64_t our_bytes = 0, their_bytes = 0;
  DType our_type = DType::kF32;
  std::string their_type;
  uint64_t our_hash = 0, their_hash = 0;  // FNV-1a, 64 bits
  int64_t n_different = 0;                // bytes, over the shorter length
  int64_t first_different = -1;           // offset within the tensor; -1: none
  bool equal() const { return n_different == 0 && our_bytes == their_bytes; }
};

class Conversion {
 public:
  // Errors: those of config_from_hf, the checkpoint, the vocabulary, TemplateFile, Imatrix and
  // planned_type; kUnsupported for an importance matrix of another shape or, when strict, one
  // that lacks a tensor.
  static Result<Conversion> plan(const PlanOptions& options);

  const ModelConfig& config() const { return config_; }
  bool has_mtp() const { return has_mtp_; }
  const std::vector<PlannedTensor>& tensors() const { return tensors_; }
  const gguf::Layout& layout() const { return layout_; }
  int64_t source_bytes() const { return checkpoint_->file_bytes(); }
  // What a user should know before the work starts: experts that calibration never saw, ...
  const std::vector<std::string>& warnings() const { return warnings_; }
  // Tensors whose type the plan changed against the template: "NAME Q8_0 -> F16".
  const std::vector<std::string>& type_changes() const { return type_changes_; }

  // Errors: those of gguf::Writer; kCorrupt for a damaged weight; kCancelled when `stop` was asked.
  // After any of them no file is left.
  Result<void> run(const std::string& path, const RunOptions& options, std::stop_token stop,
                   ConvertProgress& progress) const;

  // Makes tensor `name` in memory and compares it with the one in `other`. Errors: kNotFound when
  // this plan or that file has no such tensor; as run().
  Result<TensorComparison> compare(const std::string& name, const gguf::File& other, int n_threads,
                                   std::stop_token stop) const;

 private:
  explicit Conversion(std::unique_ptr<safetensors::Checkpoint> checkpoint)
      : checkpoint_(std::move(checkpoint)) {}
  Result<void> plan_by_recipe(const PlanOptions& options);
  Result<void> plan_by_template(const PlanOptions& options);
  Result<PlannedTensor> find_sources(const TensorSpec& spec) const;
  void add_tensor(PlannedTensor tensor);
  Result<void> use_imatrix(const PlanOptions& options);
  Result<void> find_importance(PlannedTensor& tensor, bool strict);

  // At fixed addresses: planned tensors point into both.
  std::unique_ptr<safetensors::Checkpoint> checkpoint_;
  std::unique_ptr<Imatrix> imatrix_;
  ModelConfig config_;
  bool has_mtp_ = false;
  std::vector<PlannedTensor> tensors_;
  gguf::Layout layout_;
  std::vector<std::string> warnings_, type_changes_;
};

}  // namespace ds4
