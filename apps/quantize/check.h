#pragma once
// Walks tokens through a model, layer by layer, and says what became of them: how large the
// residual streams are, how evenly the experts are used, whether the logits are numbers. Weights
// are read through the file's mapping, one layer at a time; beside them the memory is that of one
// layer.
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/model.h"

namespace ds4 {

struct CheckOptions {
  int n_threads = 0;
  int64_t n_tokens = 64;  // random ones, as one prompt
  int64_t n_decode = 4;   // then greedy ones, one at a time
  uint64_t seed = 1;      // of the prompt
};

struct LayerCheck {
  bool finite = true;
  double max_abs = 0;  // of the streams after the layer, over all tokens
  double rms = 0;
  std::vector<int64_t> expert_tokens;  // by expert: (token, slot) pairs that chose it
};

struct ModelCheck {
  std::vector<LayerCheck> layers;
  int64_t n_tokens = 0;
  bool logits_finite = true;
  double max_logit = 0;  // in magnitude

  // Errors: kNonFinite for a layer or logits with NaN or infinite values, or for streams above
  // `hidden_max`; names the first such layer.
  Result<void> verdict(double hidden_max) const;
};

// Errors: those of make_backend, Forward and KvCache.
Result<ModelCheck> check_model(const Model& model, const CheckOptions& options);

// A line a layer: max |hidden|, rms, and the load of the experts relative to its mean.
std::string describe_check(const ModelCheck& check);

}  // namespace ds4
