#pragma once
// From GGUF metadata to a ModelConfig: decides whether a file is one of the three known models, and
// checks every constant the arithmetic depends on. A file with another clamp, ratio or epsilon
// would load and answer with plausible nonsense, so nothing is taken on trust
// (docs/formats/gguf.md).
#include "base/result.h"
#include "gguf/file.h"
#include "model/config.h"
#include "tokenizer/vocab.h"

namespace ds4 {

// Metadata key of our converter: which text the effort levels add, "preview" or "official".
inline constexpr const char* kEffortProfileKey = "ds4.effort_profile";

// Metadata key that marks a slice: how many layers the model has whose first ones the file holds.
inline constexpr const char* kSliceOfLayersKey = "ds4.slice.of_layers";

struct ModelOptions {
  // Takes a slice (model/config.h) for a model. It computes as fast as those layers of the model do
  // and answers nonsense, so nobody should run one by accident.
  bool allow_slice = false;
};

// The config of the shape the file has. Errors, each in one message with the file's name:
// kUnsupported for another architecture (an MTP draft file is recognised), for a shape that is not
// Flash, Pro or Nano (the nearest one and the first difference), for a slice that `options` do not
// allow, or for changed constants (all of them, found and expected); kCorrupt for missing or
// mistyped keys (all of them), and for a slice's mark that makes no sense.
Result<ModelConfig> config_from_gguf(const gguf::File& file, const ModelOptions& options = {});

// The vocabulary arrays, checked for size, tokenizer kind and the control tokens every prompt
// needs. `config` is what config_from_gguf() returned. Errors: kCorrupt, kUnsupported.
Result<VocabData> vocab_from_gguf(const gguf::File& file, const ModelConfig& config);

}  // namespace ds4
