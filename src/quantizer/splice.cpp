#include "quantizer/splice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "quantizer/template_file.h"

namespace ds4 {
namespace {

constexpr int64_t kCopyBytes = int64_t{16} << 20;  // of a piece; a stop request waits for one

// The layer whose routed experts a tensor holds.
std::optional<int64_t> expert_layer(std::string_view name) {
  if (!name.starts_with("blk.")) return std::nullopt;
  const size_t dot = name.find('.', 4);
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view rest = name.substr(dot + 1);
  if (rest != "ffn_gate_exps.weight" && rest != "ffn_up_exps.weight" &&
      rest != "ffn_down_exps.weight") {
    return std::nullopt;
  }
  int64_t layer = 0;
  for (const char c : name.substr(4, dot - 4)) {
    if (c < '0' || c > '9' || layer > 1'000'000) return std::nullopt;
    layer = 10 * layer + (c - '0');
  }
  return layer;
}

tl::unexpected<Error> differ(const gguf::File& base, const gguf::File& donor,
                             const std::string& what) {
  return fail(ErrorCode::kUnsupported,
              fmt::format("{} and {}: {}", base.path(), donor.path(), what));
}

// The donor's tensor of the same name and shape.
Result<const gguf::TensorInfo*> counterpart(const gguf::File& base, const gguf::File& donor,
                                            const gguf::TensorInfo& info) {
  const gguf::TensorInfo* other = donor.find_tensor(info.name);
  if (other == nullptr) {
    return differ(base, donor, fmt::format("{} is in the first file only", info.name));
  }
  if (other->dims != info.dims) {
    return differ(base, donor,
                  fmt::format("{}: expected the same dimensions, found [{}] and [{}]", info.name,
                              fmt::join(info.dims, ", "), fmt::join(other->dims, ", ")));
  }
  return other;
}

Result<Shape> shape_of(const gguf::File& file, const gguf::TensorInfo& info) {
  if (!info.dtype()) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{}: {} has type {}, which this program does not write", file.path(),
                            info.name, gguf::type_name(info.type_id)));
  }
  Shape shape;
  for (auto dim = info.dims.rbegin(); dim != info.dims.rend(); ++dim) shape.append(*dim);
  return shape;
}

}  // namespace

Result<Splice> Splice::plan(const std::string& base_path, const std::string& donor_path,
                            const LayerSet& layers) {
  DS4_TRY(gguf::File base, open_named_gguf(base_path));
  DS4_TRY(gguf::File donor, open_named_gguf(donor_path));
  if (base.alignment() != donor.alignment() || base.tensors().size() != donor.tensors().size()) {
    return differ(base, donor,
                  fmt::format("expected the same alignment and number of tensors, found {} and {}, "
                              "{} and {}",
                              base.alignment(), donor.alignment(), base.tensors().size(),
                              donor.tensors().size()));
  }
  Splice splice;
  splice.base_ = std::make_unique<gguf::File>(std::move(base));
  splice.donor_ = std::make_unique<gguf::File>(std::move(donor));
  splice.layout_ = gguf::Layout(splice.base_->alignment());
  copy_metadata(*splice.base_, splice.layout_);
  int64_t n_layers = 0;
  for (const gguf::TensorInfo& info : splice.base_->tensors()) {
    DS4_TRY(const gguf::TensorInfo* other, counterpart(*splice.base_, *splice.donor_, info));
    const std::optional<int64_t> layer = expert_layer(info.name);
    const bool from_donor = layer && layers.contains(*layer);
    if (layer) n_layers = std::max(n_layers, *layer + 1);
    if (from_donor) ++splice.n_from_donor_;
    const gguf::TensorInfo& source = from_donor ? *other : info;
    DS4_TRY(const Shape shape, shape_of(from_donor ? *splice.donor_ : *splice.base_, source));
    splice.layout_.add_tensor(info.name, *source.dtype(), shape);
    splice.sources_.push_back(&source);
  }
  DS4_TRY_VOID(layers.check(n_layers));
  return splice;
}

Result<void> Splice::run(const std::string& path, const RunOptions& options, std::stop_token stop,
                         ConvertProgress& progress) const {
  DS4_TRY(gguf::Writer writer, gguf::Writer::create(layout_, path, options.overwrite));
  for (size_t i = 0; i < sources_.size(); ++i) {
    const int64_t bytes = layout_.tensor_bytes(static_cast<int>(i));
    DS4_CHECK(bytes == sources_[i]->bytes);
    for (int64_t at = 0; at < bytes; at += kCopyBytes) {
      if (stop.stop_requested()) {
        return fail(ErrorCode::kCancelled, "interrupted; no file was written");
      }
      const int64_t n = std::min(kCopyBytes, bytes - at);
      DS4_TRY_VOID(
          writer.write(static_cast<int>(i), at, {sources_[i]->data + at, static_cast<size_t>(n)}));
      progress.bytes_done += n;
    }
    ++progress.tensors_done;
  }
  return writer.finish();
}

}  // namespace ds4
