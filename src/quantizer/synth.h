#pragma once
// Synthetic models: files with the tensors, types, sizes, metadata and vocabulary of a real Flash,
// Pro or Nano, or of a slice of one, and random weights. For loaders, memory plans, speed, and
// comparisons between backends, where the real weights are not at hand; what such a model says
// means nothing.
//
//   DS4_TRY(const ModelConfig config, config_from_shape("flash:LAYERS=4"));
//   DS4_TRY(const Synth synth, Synth::plan({.config = config, .recipe = Recipe::kQ2}));
//   DS4_TRY_VOID(synth.run("slice.gguf", {}, stop, progress));
#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/writer.h"
#include "quantizer/progress.h"
#include "quantizer/recipe.h"
#include "quantizer/synth_weights.h"

namespace ds4 {

// Metadata keys of a synthetic file: the seed (u64), and "random", or "none" for one without data.
inline constexpr const char* kSynthSeedKey = "ds4.synth.seed";
inline constexpr const char* kSynthDataKey = "ds4.synth.data";

// "flash", "pro", "nano", or "flash:LAYERS=4" for a slice. Errors: kInvalidArgument.
Result<ModelConfig> config_from_shape(std::string_view text);

struct SynthOptions {
  ModelConfig config;
  Recipe recipe = Recipe::kQ2;
  TypeOverrides overrides;
  Routing routing = Routing::kUniform;
  uint64_t seed = 1;
  bool sparse = false;  // run() leaves the data as a hole: zeros that take no space
};

class Synth {
 public:
  // Errors: those of planned_type.
  static Result<Synth> plan(const SynthOptions& options);

  const ModelConfig& config() const { return options_.config; }
  const gguf::Layout& layout() const { return layout_; }

  // Bytes depend on the options alone, not on the number of threads. Errors: those of gguf::Writer;
  // kIo before anything is written when the file system has not enough space; kCancelled when
  // `stop` was asked. After any of them no file is left.
  Result<void> run(const std::string& path, const RunOptions& options, std::stop_token stop,
                   ConvertProgress& progress) const;

 private:
  explicit Synth(const SynthOptions& options) : options_(options) {}
  Result<void> run_sparse(const std::string& path, bool overwrite) const;

  SynthOptions options_;
  std::vector<SynthTensor> tensors_;
  gguf::Layout layout_;
};

}  // namespace ds4
