#include "model/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "model/tensor_table.h"

namespace ds4 {
namespace {

constexpr size_t kMaxListed = 20;

std::string type_list(TensorKind kind) {
  std::vector<std::string_view> names;
  for (const DType type : accepted_types(kind)) names.push_back(dtype_name(type));
  return fmt::format("{}", fmt::join(names, ", "));
}

// Fills fields and keeps every complaint, so that a file from another exporter is understood in one
// attempt instead of one missing tensor at a time.
class Binder {
 public:
  Binder(const TensorLookup& lookup, const UnusableLookup& unusable)
      : lookup_(lookup), unusable_(unusable) {}

  void bind(const TensorSpec& spec, ConstTensor& field) {
    const auto found = lookup_(spec.name);
    if (!found) {
      const auto type = unusable_ ? unusable_(spec.name) : std::nullopt;
      complain(
          type ? fmt::format("{} has type {}, expected {}", spec.name, *type, type_list(spec.kind))
               : fmt::format("{} is missing", spec.name));
      return;
    }
    if (!(found->shape() == spec.shape)) {
      return complain(fmt::format("{} has shape {}, expected {}", spec.name,
                                  found->shape().to_string(), spec.shape.to_string()));
    }
    const auto types = accepted_types(spec.kind);
    if (std::find(types.begin(), types.end(), found->dtype()) == types.end()) {
      return complain(fmt::format("{} has type {}, expected {}", spec.name,
                                  dtype_name(found->dtype()), type_list(spec.kind)));
    }
    field = *found;
  }

  // The kernels of a layer read gate and up together.
  void same_gate_up(std::string_view prefix, const MoeWeights& moe) {
    if (moe.gate.empty() || moe.up.empty() || moe.gate.dtype() == moe.up.dtype()) return;
    complain(
        fmt::format("{}ffn_gate_exps.weight is {} but {}ffn_up_exps.weight is {}, expected the "
                    "same type",
                    prefix, dtype_name(moe.gate.dtype()), prefix, dtype_name(moe.up.dtype())));
  }

  Result<void> finish() const {
    if (n_complaints_ == 0) return {};
    const size_t rest = n_complaints_ - complaints_.size();
    return fail(ErrorCode::kUnsupported,
                fmt::format("{} tensors do not fit the model: {}{}", n_complaints_,
                            fmt::join(complaints_, "; "),
                            rest == 0 ? "" : fmt::format("; and {} more", rest)));
  }

 private:
  void complain(std::string text) {
    ++n_complaints_;
    if (complaints_.size() < kMaxListed) complaints_.push_back(std::move(text));
  }

  const TensorLookup& lookup_;
  const UnusableLookup& unusable_;
  size_t n_complaints_ = 0;
  std::vector<std::string> complaints_;
};

// An id outside the table would read another tensor's bytes as an expert.
Result<void> check_hash_ids(int64_t layer, const ConstTensor& ids, int64_t n_experts) {
  for (int64_t token = 0; token < ids.n_rows(); ++token) {
    const int32_t* row = ids.row<int32_t>(token);
    for (int64_t k = 0; k < ids.n_cols(); ++k) {
      if (row[k] >= 0 && row[k] < n_experts) continue;
      return fail(ErrorCode::kCorrupt,
                  fmt::format("blk.{}.ffn_gate_tid2eid.weight: token {} entry {}: expert id 0..{} "
                              "expected, found {}",
                              layer, token, k, n_experts - 1, row[k]));
    }
  }
  return {};
}

bool present(const TensorLookup& lookup, const UnusableLookup& unusable, std::string_view name) {
  return lookup(name).has_value() || (unusable && unusable(name).has_value());
}

// Another kind of drafter with the same prefix; its missing tensors would only confuse.
Result<void> refuse_dspark(const TensorLookup& lookup, const UnusableLookup& unusable) {
  if (!present(lookup, unusable, "mtp.0.main_proj.weight")) return {};
  return fail(ErrorCode::kUnsupported,
              "mtp.0.main_proj.weight found: this is a DSpark drafter, which is not supported; the "
              "engine runs the one-token MTP block");
}

}  // namespace

Result<Weights> bind_weights(const ModelConfig& config, const TensorLookup& lookup,
                             const UnusableLookup& unusable) {
  DS4_TRY_VOID(refuse_dspark(lookup, unusable));
  Weights weights;
  // Some published files announce a draft layer and have none: only tensors count. Any of these
  // three is enough, so that a damaged block is reported instead of dropped.
  for (const char* name :
       {"mtp.0.e_proj.weight", "mtp.0.h_proj.weight", "mtp.0.attn_norm.weight"}) {
    if (present(lookup, unusable, name)) weights.mtp.emplace();
  }
  Binder binder(lookup, unusable);
  visit_weights(config, weights,
                [&](const TensorSpec& spec, ConstTensor& field) { binder.bind(spec, field); });
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    binder.same_gate_up(fmt::format("blk.{}.", i), weights.layers[i].moe);
  }
  if (weights.mtp) binder.same_gate_up("mtp.0.", weights.mtp->layer.moe);
  DS4_TRY_VOID(binder.finish());
  for (int64_t i = 0; i < config.n_layers && config.is_hash_layer(i); ++i) {
    DS4_TRY_VOID(
        check_hash_ids(i, weights.layers[static_cast<size_t>(i)].moe.hash_ids, config.n_experts));
  }
  return weights;
}

Result<MtpWeights> bind_mtp(const ModelConfig& config, const TensorLookup& lookup,
                            const UnusableLookup& unusable) {
  DS4_TRY_VOID(refuse_dspark(lookup, unusable));
  MtpWeights mtp;
  Binder binder(lookup, unusable);
  visit_mtp(config, mtp,
            [&](const TensorSpec& spec, ConstTensor& field) { binder.bind(spec, field); });
  binder.same_gate_up("mtp.0.", mtp.layer.moe);
  DS4_TRY_VOID(binder.finish());
  return mtp;
}

}  // namespace ds4
