#include "model/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace ds4 {
namespace {

TensorLookup lookup_in(const gguf::File& file) {
  return [&file](std::string_view name) -> std::optional<ConstTensor> {
    const gguf::TensorInfo* info = file.find_tensor(name);
    if (info == nullptr || !info->dtype()) return std::nullopt;
    return info->view();
  };
}

UnusableLookup unusable_in(const gguf::File& file) {
  return [&file](std::string_view name) -> std::optional<std::string> {
    const gguf::TensorInfo* info = file.find_tensor(name);
    if (info == nullptr) return std::nullopt;
    return gguf::type_name(info->type_id);
  };
}

Result<void> check_mtp_architecture(const gguf::File& file) {
  const gguf::Value* value = file.find("general.architecture");
  const auto name = value == nullptr ? std::nullopt : value->as_string();
  if (name == "deepseek4_mtp_support") return {};
  return fail(
      ErrorCode::kUnsupported,
      fmt::format("{}: general.architecture: expected deepseek4_mtp_support, found {}; this "
                  "is not an MTP draft file",
                  file.path(), name.value_or("nothing")));
}

}  // namespace

Result<Model> Model::from_gguf(gguf::File file, const ModelOptions& options) {
  DS4_TRY(ModelConfig config, config_from_gguf(file, options));
  DS4_TRY(VocabData vocab, vocab_from_gguf(file, config));
  Model model(std::move(file), std::move(config));
  model.vocab_ = std::move(vocab);
  auto weights = bind_weights(model.config_, lookup_in(model.file_), unusable_in(model.file_));
  if (!weights) return fail_within(model.file_.path(), std::move(weights.error()));
  model.weights_ = std::move(*weights);
  return model;
}

Result<Model> Model::open(const std::string& path, const ModelOptions& options) {
  DS4_TRY(gguf::File file, gguf::File::open(path));
  return from_gguf(std::move(file), options);
}

Result<void> Model::load_mtp(const std::string& path) {
  DS4_TRY(gguf::File file, gguf::File::open(path));
  DS4_TRY_VOID(check_mtp_architecture(file));
  auto mtp = bind_mtp(config_, lookup_in(file), unusable_in(file));
  if (!mtp) return fail_within(path, std::move(mtp.error()));
  weights_.mtp = std::move(*mtp);
  mtp_file_ = std::move(file);
  return {};
}

std::string Model::general_name() const {
  const gguf::Value* value = file_.find("general.name");
  const auto name = value == nullptr ? std::nullopt : value->as_string();
  return name ? std::string(*name) : "DeepSeek V4 " + config_.name;
}

std::optional<std::string> Model::effort_profile() const {
  const gguf::Value* value = file_.find(kEffortProfileKey);
  const auto profile = value == nullptr ? std::nullopt : value->as_string();
  if (!profile) return std::nullopt;
  return std::string(*profile);
}

std::vector<TensorTypeUse> Model::tensor_types() const {
  std::map<std::string, TensorTypeUse> by_type;
  for (const gguf::TensorInfo& info : file_.tensors()) {
    TensorTypeUse& use = by_type[gguf::type_name(info.type_id)];
    ++use.n_tensors;
    use.bytes += info.bytes.value_or(0);
  }
  std::vector<TensorTypeUse> uses;
  for (auto& [type, use] : by_type) {
    use.type = type;
    uses.push_back(use);
  }
  std::stable_sort(uses.begin(), uses.end(), [](const TensorTypeUse& a, const TensorTypeUse& b) {
    return a.bytes > b.bytes;
  });
  return uses;
}

int Model::routed_bits() const {
  const DType gate = weights_.layers.front().moe.gate.dtype();
  return gate == DType::kQ4_K || gate == DType::kMXFP4 ? 4 : 2;
}

}  // namespace ds4
