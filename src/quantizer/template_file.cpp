#include "quantizer/template_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "model/config_reader.h"
#include "quantizer/synth.h"

namespace ds4 {
namespace {

tl::unexpected<Error> unsuitable(const gguf::File& file, const std::string& what) {
  return fail(ErrorCode::kUnsupported, fmt::format("template {}: {}", file.path(), what));
}

// Every tensor the model can have, by name.
std::unordered_map<std::string, TensorSpec> known_tensors(const ModelConfig& config,
                                                          bool with_mtp) {
  Weights names_only;
  if (with_mtp) names_only.mtp.emplace();
  std::unordered_map<std::string, TensorSpec> known;
  visit_weights(config, names_only,
                [&](const TensorSpec& spec, ConstTensor&) { known.emplace(spec.name, spec); });
  return known;
}

// Outermost first, as in a TensorSpec.
std::vector<int64_t> outermost_first(const gguf::TensorInfo& info) {
  return {info.dims.rbegin(), info.dims.rend()};
}

bool same_shape(const gguf::TensorInfo& info, const Shape& shape) {
  const std::vector<int64_t> dims = outermost_first(info);
  if (std::ssize(dims) != shape.rank()) return false;
  for (int i = 0; i < shape.rank(); ++i) {
    if (dims[static_cast<size_t>(i)] != shape[i]) return false;
  }
  return true;
}

}  // namespace

Result<TemplateFile> TemplateFile::open(const std::string& path, const ModelConfig& config) {
  DS4_TRY(gguf::File opened, open_named_gguf(path));
  TemplateFile file(std::move(opened));
  DS4_TRY(const ModelConfig found, config_from_gguf(file.file_));
  if (found.name != config.name) {
    return unsuitable(file.file_, fmt::format("expected a file of DeepSeek V4 {}, found one of {}",
                                              config.name, found.name));
  }
  if (file.file_.find(kSynthDataKey) != nullptr) {
    return unsuitable(file.file_,
                      "its weights are random, and its metadata, which would be copied, says so");
  }
  DS4_TRY_VOID(file.match_tensors(config));
  return file;
}

Result<void> TemplateFile::match_tensors(const ModelConfig& config) {
  has_mtp_ = file_.find_tensor("mtp.0.e_proj.weight") != nullptr;
  auto missing = known_tensors(config, has_mtp_);
  for (const gguf::TensorInfo& info : file_.tensors()) {
    const auto found = missing.find(std::string(info.name));
    if (found == missing.end()) {
      return unsuitable(file_, fmt::format("{}: a tensor this model does not have", info.name));
    }
    if (!same_shape(info, found->second.shape)) {
      return unsuitable(file_, fmt::format("{}: expected shape {} (outermost first), found [{}]",
                                           info.name, found->second.shape.to_string(),
                                           fmt::join(outermost_first(info), ", ")));
    }
    if (!info.dtype()) {
      return unsuitable(file_, fmt::format("{}: {} is a type this program does not write",
                                           info.name, gguf::type_name(info.type_id)));
    }
    tensors_.push_back({found->second, *info.dtype()});
    missing.erase(found);
  }
  if (missing.empty()) return {};
  const auto first = std::min_element(missing.begin(), missing.end(),
                                      [](auto& a, auto& b) { return a.first < b.first; });
  return unsuitable(file_, fmt::format("{} tensors of the model are missing, among them {}",
                                       missing.size(), first->first));
}

Result<gguf::File> open_named_gguf(const std::string& path) {
  auto file = gguf::File::open(path);
  if (!file && file.error().code == ErrorCode::kInvalidArgument) {
    return fail(ErrorCode::kCorrupt, std::move(file.error().message));
  }
  return file;
}

void copy_metadata(const gguf::File& file, gguf::Layout& layout, std::string_view without) {
  std::set<std::string_view> done;
  // A Layout writes an unusual alignment itself.
  if (file.alignment() != gguf::kDefaultAlignment) done.insert("general.alignment");
  for (const gguf::KeyValue& entry : file.metadata()) {
    if (!without.empty() && entry.key.starts_with(without)) continue;
    if (!done.insert(entry.key).second) continue;
    layout.add_value(entry.key, entry.value.type(), entry.value.payload());
  }
}

}  // namespace ds4
