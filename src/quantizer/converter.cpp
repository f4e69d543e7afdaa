#include "quantizer/converter.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "quant/codec.h"
#include "quantizer/hf_config.h"
#include "quantizer/hf_names.h"
#include "quantizer/metadata.h"
#include "quantizer/template_file.h"
#include "tokenizer/vocab.h"

namespace ds4 {
namespace {

Result<void> check_vocab(const std::string& path, const VocabData& vocab,
                         const ModelConfig& config) {
  if (static_cast<int64_t>(vocab.tokens.size()) == config.vocab_size) return {};
  return fail(ErrorCode::kUnsupported, fmt::format("{}: expected {} tokens (vocab_size), found {}",
                                                   path, config.vocab_size, vocab.tokens.size()));
}

// What a source may be for a kind of tensor, beyond what HfMatrix checked.
Result<void> check_source(const TensorSpec& spec, const HfMatrix& source) {
  if (is_routed(spec.kind) && !source.is_fp4()) {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("{}: routed experts in FP4 (I8 with F8_E8M0 scales) expected", source.name()));
  }
  if (source.is_ids() != (spec.kind == TensorKind::kHashIds)) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{}: {} expected", source.name(),
                            source.is_ids() ? "floating values" : "I64 or I32 ids"));
  }
  return {};
}

}  // namespace

Result<PlannedTensor> Conversion::find_sources(const TensorSpec& spec) const {
  PlannedTensor tensor{.spec = spec};
  const std::string name = hf_name(spec.name);
  const bool routed = is_routed(spec.kind);
  const int64_t n_sources = routed ? spec.shape[0] : 1;
  const Shape shape = routed ? Shape{spec.shape[1], spec.shape[2]} : spec.shape;
  for (int64_t e = 0; e < n_sources; ++e) {
    DS4_TRY(HfMatrix source,
            HfMatrix::find(*checkpoint_, routed ? hf_expert_name(name, e) : name, shape));
    DS4_TRY_VOID(check_source(spec, source));
    tensor.sources.push_back(std::move(source));
  }
  return tensor;
}

void Conversion::add_tensor(PlannedTensor tensor) {
  layout_.add_tensor(tensor.spec.name, tensor.type, tensor.spec.shape);
  tensors_.push_back(std::move(tensor));
}

Result<void> Conversion::plan_by_recipe(const PlanOptions& options) {
  const std::string vocab_path = options.hf_dir + "/tokenizer.json";
  DS4_TRY(const VocabData vocab, load_hf_vocab(vocab_path));
  DS4_TRY_VOID(check_vocab(vocab_path, vocab, config_));
  has_mtp_ = options.with_mtp && checkpoint_->find("mtp.0.e_proj.weight") != nullptr;
  add_metadata(layout_, config_, vocab,
               {.n_draft_blocks = has_mtp_ ? 1 : 0, .effort_profile = options.effort_profile});
  Weights names_only;
  if (has_mtp_) names_only.mtp.emplace();
  const auto plan_one = [&](const TensorSpec& spec) -> Result<void> {
    DS4_TRY(PlannedTensor tensor, find_sources(spec));
    DS4_TRY(tensor.type, planned_type(spec, tensor.sources.front().is_f32(), options.recipe,
                                      config_.n_layers, options.overrides));
    add_tensor(std::move(tensor));
    return {};
  };
  Result<void> planned;
  visit_weights(config_, names_only, [&](const TensorSpec& spec, ConstTensor&) {
    if (planned) planned = plan_one(spec);
  });
  return planned;
}

Result<void> Conversion::plan_by_template(const PlanOptions& options) {
  DS4_TRY(const TemplateFile pattern, TemplateFile::open(options.template_path, config_));
  has_mtp_ = pattern.has_mtp();
  layout_ = gguf::Layout(pattern.alignment());
  copy_metadata(pattern.file(), layout_, kImatrixKeyPrefix);
  for (const TemplateFile::Tensor& entry : pattern.tensors()) {
    DS4_TRY(PlannedTensor tensor, find_sources(entry.spec));
    DS4_TRY(tensor.type, planned_type(entry.spec, entry.type, options.overrides));
    if (tensor.type != entry.type) {
      type_changes_.push_back(fmt::format("{} {} -> {}", entry.spec.name, dtype_name(entry.type),
                                          dtype_name(tensor.type)));
    }
    add_tensor(std::move(tensor));
  }
  return {};
}

Result<void> Conversion::find_importance(PlannedTensor& tensor, bool strict) {
  const std::string pattern = hf_name(tensor.spec.name);
  const int64_t n_experts = tensor.spec.shape[0], columns = tensor.spec.shape[2];
  int64_t n_missing = 0, n_unseen = 0, n_zero = 0;
  for (int64_t e = 0; e < n_experts; ++e) {
    DS4_TRY(const std::span<const float> means,
            imatrix_->find(tensor.spec.name, hf_expert_name(pattern, e), e, n_experts, columns));
    tensor.importance.push_back(means);
    if (means.empty()) {
      ++n_missing;
    } else if (!Imatrix::was_seen(means)) {
      ++n_unseen;
    }
    n_zero += std::count(means.begin(), means.end(), 0.0f);
  }
  std::string notes;
  const auto note = [&](int64_t n, const std::string& text) {
    if (n > 0) notes += fmt::format("{}{} {}", notes.empty() ? "" : "; ", n, text);
  };
  note(n_missing, fmt::format("of {} experts are not in the importance matrix", n_experts));
  note(n_unseen, fmt::format("of {} experts were never used in calibration: all columns count "
                             "alike",
                             n_experts));
  note(n_zero, "columns have no importance: they count as a hundredth of the mean");
  if (notes.empty()) return {};
  notes = fmt::format("{}: {}", tensor.spec.name, notes);
  if (strict && n_missing > 0) return fail(ErrorCode::kUnsupported, notes);
  warnings_.push_back(std::move(notes));
  return {};
}

Result<void> Conversion::use_imatrix(const PlanOptions& options) {
  if (options.imatrix_path.empty()) return {};
  DS4_TRY(Imatrix imatrix, Imatrix::read(options.imatrix_path));
  imatrix_ = std::make_unique<Imatrix>(std::move(imatrix));
  bool any = false;
  for (PlannedTensor& tensor : tensors_) {
    if (!is_routed(tensor.spec.kind) || !uses_importance(tensor.type)) continue;
    any = true;
    DS4_TRY_VOID(find_importance(tensor, options.imatrix_strict));
  }
  if (!any) warnings_.emplace_back("no tensor has a type that uses the importance matrix");
  const std::string prefix(kImatrixKeyPrefix);
  layout_.add_string(prefix + "file", options.imatrix_path);
  layout_.add_u64(prefix + "entries_count", imatrix_->entries.size());
  if (!imatrix_->datasets.empty()) {
    layout_.add_string(prefix + "dataset", imatrix_->datasets.front());
  }
  if (imatrix_->n_chunks > 0) {
    layout_.add_u64(prefix + "chunks_count", static_cast<uint64_t>(imatrix_->n_chunks));
  }
  return {};
}

Result<Conversion> Conversion::plan(const PlanOptions& options) {
  DS4_TRY(ModelConfig config, config_from_hf(options.hf_dir));
  DS4_TRY(safetensors::Checkpoint checkpoint, safetensors::Checkpoint::open(options.hf_dir));
  Conversion conversion(std::make_unique<safetensors::Checkpoint>(std::move(checkpoint)));
  conversion.config_ = std::move(config);
  DS4_TRY_VOID(options.template_path.empty() ? conversion.plan_by_recipe(options)
                                             : conversion.plan_by_template(options));
  DS4_TRY_VOID(conversion.use_imatrix(options));
  return conversion;
}

}  // namespace ds4
