#pragma once
// A GGUF file taken as the pattern of a new one: its metadata is copied word for word, its tensors
// give names, order, shapes and, where nobody asks for another, types. For files that must differ
// from a known one in their weights alone.
//
// Immutable after open(); moving keeps views valid.
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/file.h"
#include "gguf/writer.h"
#include "model/config.h"
#include "model/tensor_table.h"

namespace ds4 {

class TemplateFile {
 public:
  struct Tensor {
    TensorSpec spec;
    DType type = DType::kF32;
  };

  // A template for a model of shape `config`. Errors: those of open_named_gguf and
  // config_from_gguf; kUnsupported for the file of another model, for a slice, for a synthetic
  // file (its metadata says so, and the copy would), for a tensor the
  // model does not have, lacks, or has in another shape, each with its name.
  static Result<TemplateFile> open(const std::string& path, const ModelConfig& config);

  const std::string& path() const { return file_.path(); }
  int64_t alignment() const { return file_.alignment(); }
  bool has_mtp() const { return has_mtp_; }
  // In the order of the file.
  const std::vector<Tensor>& tensors() const { return tensors_; }

  const gguf::File& file() const { return file_; }

 private:
  explicit TemplateFile(gguf::File file) : file_(std::move(file)) {}
  Result<void> match_tensors(const ModelConfig& config);

  gguf::File file_;
  bool has_mtp_ = false;
  std::vector<Tensor> tensors_;
};

// Prefix of the keys about an importance matrix: they belong to the weights made with it, so a new
// file does not take them over.
inline constexpr std::string_view kImatrixKeyPrefix = "quantize.imatrix.";

// gguf::File::open() for a file that a command names beside its options: one that is not GGUF at
// all is kCorrupt here, so that kInvalidArgument stays with the options.
Result<gguf::File> open_named_gguf(const std::string& path);

// All keys of `file`, word for word, but those that begin with `without`. Of a repeated key the
// first counts.
void copy_metadata(const gguf::File& file, gguf::Layout& layout, std::string_view without = {});

}  // namespace ds4
