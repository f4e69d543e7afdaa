#pragma once
// A model file opened, identified and bound: shape, weights, vocabulary. open() either returns a
// model whose every constant and tensor was checked, or one line saying what is wrong and what was
// expected.
//
// Weights stay in the file's mapping and are read when used. Immutable after open() and load_mtp();
// const access is thread-safe; moving keeps all views valid.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/file.h"
#include "model/config.h"
#include "model/config_reader.h"
#include "model/weights.h"
#include "tokenizer/vocab.h"

namespace ds4 {

// How much of a file one tensor type takes.
struct TensorTypeUse {
  std::string type;
  int64_t n_tensors = 0;
  int64_t bytes = 0;
};

class Model {
 public:
  // Errors: those of gguf::File::open, config_from_gguf, vocab_from_gguf and bind_weights.
  static Result<Model> open(const std::string& path, const ModelOptions& options = {});
  // The same for a file already parsed, perhaps in memory; its bytes must outlive the Model.
  static Result<Model> from_gguf(gguf::File file, const ModelOptions& options = {});

  // Adds the MTP draft block from its own file and replaces one that the model has.
  // Errors, with the model unchanged: those of reading; kUnsupported for a file that is no such
  // block or has other dimensions than this model.
  Result<void> load_mtp(const std::string& path);

  const ModelConfig& config() const { return config_; }
  const Weights& weights() const { return weights_; }
  bool has_mtp() const { return weights_.mtp.has_value(); }
  const VocabData& vocab() const { return vocab_; }

  // For people: general.name, or "DeepSeek V4 Flash" when the file has none.
  std::string general_name() const;
  // "preview" or "official" when our converter wrote it; empty otherwise.
  std::optional<std::string> effort_profile() const;
  const gguf::File& file() const { return file_; }

  // Types by bytes, largest first.
  std::vector<TensorTypeUse> tensor_types() const;
  // 4 when the first layer's gate is Q4_K or MXFP4, else 2: the short name people use for a file. A
  // cache key must use the layers' own types.
  int routed_bits() const;

 private:
  Model(gguf::File file, ModelConfig config) : file_(std::move(file)), config_(std::move(config)) {}

  gguf::File file_;
  std::optional<gguf::File> mtp_file_;
  ModelConfig config_;
  VocabData vocab_;
  Weights weights_;
};

}  // namespace ds4
