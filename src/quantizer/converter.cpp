#include "quantizer/converter.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/thread_pool.h"
#include "quant/codec.h"
#include "quantizer/hf_config.h"
#include "quantizer/hf_names.h"
#include "quantizer/metadata.h"
#include "tokenizer/vocab.h"

namespace ds4 {
namespace {

// About how many values one piece of work has; small enough that a stop request is quick.
constexpr int64_t kValuesPerPiece = 1 << 20;

// A run of rows of one source, and where its bytes go within the tensor.
struct Piece {
  const HfMatrix* source = nullptr;
  int64_t first_row = 0;
  int64_t n_rows = 0;
  int64_t offset = 0;
};

// Experts stay whole, because the fallback importance is a sum over all rows of one.
std::vector<Piece> pieces_of(const PlannedTensor& tensor) {
  std::vector<Piece> pieces;
  int64_t offset = 0;
  for (const HfMatrix& source : tensor.sources) {
    const int64_t step = is_routed(tensor.spec.kind)
                             ? source.rows()
                             : std::max<int64_t>(1, kValuesPerPiece / source.cols());
    const int64_t bytes_each = row_bytes(tensor.type, source.cols());
    for (int64_t row = 0; row < source.rows(); row += step) {
      const int64_t n = std::min(step, source.rows() - row);
      pieces.push_back({&source, row, n, offset});
      offset += n * bytes_each;
    }
  }
  return pieces;
}

// Buffers of one thread, grown once and used for every piece.
struct Scratch {
  std::vector<std::byte> encoded;
  std::vector<float> row;
  std::vector<float> importance;
};

// Weight of column c's error where no measured importance exists: the sum of its squared weights.
Result<void> fallback_importance(const HfMatrix& source, Scratch& scratch) {
  scratch.importance.assign(static_cast<size_t>(source.cols()), 0.0f);
  for (int64_t row = 0; row < source.rows(); ++row) {
    DS4_TRY_VOID(source.decode_row(row, scratch.row.data()));
    for (size_t c = 0; c < scratch.importance.size(); ++c) {
      scratch.importance[c] += scratch.row[c] * scratch.row[c];
    }
  }
  return {};
}

Result<void> encode_piece(const Piece& piece, DType type, int64_t n_experts, Scratch& scratch) {
  const HfMatrix& source = *piece.source;
  const int64_t bytes_each = row_bytes(type, source.cols());
  scratch.encoded.resize(static_cast<size_t>(piece.n_rows * bytes_each));
  scratch.row.resize(static_cast<size_t>(source.cols()));
  const float* importance = nullptr;
  if (needs_importance(type)) {
    DS4_TRY_VOID(fallback_importance(source, scratch));
    importance = scratch.importance.data();
  }
  for (int64_t i = 0; i < piece.n_rows; ++i) {
    std::byte* dst = scratch.encoded.data() + i * bytes_each;
    if (source.is_ids()) {
      DS4_TRY_VOID(source.ids_row(piece.first_row + i, n_experts, reinterpret_cast<int32_t*>(dst)));
    } else {
      DS4_TRY_VOID(
          source.encode_row(piece.first_row + i, type, importance, scratch.row.data(), dst));
    }
  }
  return {};
}

Result<void> write_tensor(const PlannedTensor& tensor, int index, int64_t n_experts,
                          ThreadPool& pool, gguf::Writer& writer, const std::stop_token& stop,
                          ConvertProgress& progress) {
  const std::vector<Piece> pieces = pieces_of(tensor);
  FirstError error;
  pool.parallel_for(static_cast<int64_t>(pieces.size()), [&](int64_t begin, int64_t end) {
    Scratch scratch;
    for (int64_t i = begin; i < end && !error.any(); ++i) {
      if (stop.stop_requested()) {
        return error.keep({ErrorCode::kCancelled, "interrupted; no file was written"});
      }
      const Piece& piece = pieces[static_cast<size_t>(i)];
      auto encoded = encode_piece(piece, tensor.type, n_experts, scratch);
      if (!encoded) return error.keep(std::move(encoded.error()));
      auto written = writer.write(index, piece.offset, scratch.encoded);
      if (!written) return error.keep(std::move(written.error()));
      progress.bytes_done += static_cast<int64_t>(scratch.encoded.size());
    }
  });
  return error.result();
}

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

Result<void> Conversion::plan_tensor(const TensorSpec& spec, const PlanOptions& options) {
  PlannedTensor tensor{spec, DType::kF32, {}};
  const std::string name = hf_name(spec.name);
  const int64_t n_sources = is_routed(spec.kind) ? spec.shape[0] : 1;
  for (int64_t e = 0; e < n_sources; ++e) {
    const bool routed = is_routed(spec.kind);
    const Shape shape = routed ? Shape{spec.shape[1], spec.shape[2]} : spec.shape;
    DS4_TRY(HfMatrix source,
            HfMatrix::find(*checkpoint_, routed ? hf_expert_name(name, e) : name, shape));
    DS4_TRY_VOID(check_source(spec, source));
    tensor.sources.push_back(std::move(source));
  }
  DS4_TRY(tensor.type, planned_type(spec, tensor.sources.front().is_f32(), options.recipe,
                                    config_.n_layers, options.overrides));
  layout_.add_tensor(spec.name, tensor.type, spec.shape);
  tensors_.push_back(std::move(tensor));
  return {};
}

Result<Conversion> Conversion::plan(const PlanOptions& options) {
  DS4_TRY(ModelConfig config, config_from_hf(options.hf_dir));
  DS4_TRY(safetensors::Checkpoint checkpoint, safetensors::Checkpoint::open(options.hf_dir));
  const std::string vocab_path = options.hf_dir + "/tokenizer.json";
  DS4_TRY(const VocabData vocab, load_hf_vocab(vocab_path));
  DS4_TRY_VOID(check_vocab(vocab_path, vocab, config));

  Conversion conversion(std::make_unique<safetensors::Checkpoint>(std::move(checkpoint)));
  conversion.config_ = std::move(config);
  conversion.has_mtp_ =
      options.with_mtp && conversion.checkpoint_->find("mtp.0.e_proj.weight") != nullptr;
  add_metadata(
      conversion.layout_, conversion.config_, vocab,
      {.n_draft_blocks = conversion.has_mtp_ ? 1 : 0, .effort_profile = options.effort_profile});

  Weights names_only;
  if (conversion.has_mtp_) names_only.mtp.emplace();
  Result<void> planned;
  visit_weights(conversion.config_, names_only, [&](const TensorSpec& spec, ConstTensor&) {
    if (planned) planned = conversion.plan_tensor(spec, options);
  });
  DS4_TRY_VOID(std::move(planned));
  return conversion;
}

Result<void> Conversion::run(const std::string& path, const RunOptions& options,
                             std::stop_token stop, ConvertProgress& progress) const {
  DS4_TRY(gguf::Writer writer, gguf::Writer::create(layout_, path, options.overwrite));
  ThreadPool pool(options.n_threads);
  for (size_t i = 0; i < tensors_.size(); ++i) {
    DS4_TRY_VOID(write_tensor(tensors_[i], static_cast<int>(i), config_.n_experts, pool, writer,
                              stop, progress));
    ++progress.tensors_done;
  }
  return writer.finish();
}

}  // namespace ds4
