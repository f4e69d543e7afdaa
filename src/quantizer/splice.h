#pragma once
// A file made of two: the routed experts of some layers from a donor, everything else, metadata
// included, from a base. Nothing is quantized again, so the values are exactly those of the two
// files.
//
// Plan and run as in quantizer/converter.h. Immutable after plan().
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/file.h"
#include "gguf/writer.h"
#include "quantizer/layer_set.h"
#include "quantizer/progress.h"

namespace ds4 {

class Splice {
 public:
  // Errors: those of open_named_gguf; kUnsupported when alignment, tensors or dimensions
  // differ, or a layer of `layers` has no routed experts, with names.
  static Result<Splice> plan(const std::string& base_path, const std::string& donor_path,
                             const LayerSet& layers);

  const gguf::Layout& layout() const { return layout_; }
  int64_t n_from_donor() const { return n_from_donor_; }
  // How much larger the result's tensors are than the base's; negative when smaller.
  int64_t bytes_more() const { return layout_.file_bytes() - base_->file_bytes(); }

  // Errors: those of gguf::Writer; kCancelled. After any of them no file is left.
  Result<void> run(const std::string& path, const RunOptions& options, std::stop_token stop,
                   ConvertProgress& progress) const;

 private:
  Splice() = default;

  // At fixed addresses: sources_ point into them.
  std::unique_ptr<gguf::File> base_, donor_;
  std::vector<const gguf::TensorInfo*> sources_;  // by tensor of the layout
  gguf::Layout layout_;
  int64_t n_from_donor_ = 0;
};

}  // namespace ds4
