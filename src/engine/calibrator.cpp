#include "engine/calibrator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ds4 {
namespace {

constexpr int kDraftRatios[] = {0};

}  // namespace

Result<std::unique_ptr<Calibrator>> Calibrator::create(Model model,
                                                       const CalibratorOptions& options) {
  std::unique_ptr<Calibrator> calibrator(new Calibrator(std::move(model), options));
  DS4_TRY_VOID(calibrator->start());
  return calibrator;
}

int64_t Calibrator::bytes_needed(const ModelConfig& config, bool with_mtp, int64_t chunk_tokens) {
  const int64_t sums = ImportanceOps::bytes_needed(config, with_mtp);
  // Rows of experts and their inputs, as the observer fetches them.
  const int64_t rows = chunk_tokens * (config.hidden + config.n_experts_used * config.expert_ffn);
  const int64_t streams = with_mtp ? chunk_tokens * config.n_hc * config.hidden : 0;
  return sums + (rows + streams) * static_cast<int64_t>(sizeof(float));
}

Result<void> Calibrator::start() {
  const ModelConfig& config = model_.config();
  if (options_.ctx_tokens < 1 || options_.ctx_tokens > config.max_position) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("context: expected 1 .. {} tokens, found {}", config.max_position,
                            options_.ctx_tokens));
  }
  DS4_TRY(backend_, make_backend(options_.backend,
                                 {.n_threads = options_.n_threads,
                                  .pin_threads = options_.pin_threads,
                                  .integer_activations = options_.precision != Precision::hf32()}));
  Device& device = *backend_.device;
  auto importance =
      std::make_unique<ImportanceOps>(std::move(backend_.ops), device, config, model_.weights());
  importance_ = importance.get();
  backend_.ops = std::move(importance);
  DS4_TRY(Forward forward, Forward::create(device, *backend_.ops, config, model_.weights(),
                                           {.precision = options_.precision,
                                            .max_rows = options_.chunk_tokens,
                                            .max_logit_rows = 1}));
  forward_ = std::make_unique<Forward>(std::move(forward));
  const KvStorage storage = kv_storage(options_.backend, options_.precision);
  DS4_TRY(pool_, KvPool::create(device, config, forward_->cache_ratios(), storage));
  DS4_TRY(KvCache cache, KvCache::create(*pool_, options_.ctx_tokens));
  cache_ = std::make_unique<KvCache>(std::move(cache));
  logits_.resize(static_cast<size_t>(config.vocab_size));
  if (!model_.has_mtp()) return {};
  DS4_TRY(draft_pool_, KvPool::create(device, config, kDraftRatios, storage));
  DS4_TRY(KvCache draft, KvCache::create(*draft_pool_, options_.ctx_tokens));
  draft_cache_ = std::make_unique<KvCache>(std::move(draft));
  const int64_t floats = options_.chunk_tokens * config.n_hc * config.hidden;
  DS4_TRY(streams_, device.allocate(floats * static_cast<int64_t>(sizeof(float))));
  return {};
}

Result<int64_t> Calibrator::add(std::span<const Token> prompt, const Progress& progress) {
  if (prompt.empty()) {
    return fail(ErrorCode::kInvalidArgument, "calibrate: expected at least 1 token, found 0");
  }
  const auto total = std::min(static_cast<int64_t>(prompt.size()), options_.ctx_tokens);
  cache_->reset();
  if (draft_cache_) draft_cache_->reset();
  for (int64_t done = 0; done < total;) {
    const int64_t n = std::min(total - done, options_.chunk_tokens);
    DS4_TRY_VOID(run_chunk(prompt.first(static_cast<size_t>(total)), done, n));
    done += n;
    if (progress && !progress(done)) {
      return fail(ErrorCode::kCancelled, fmt::format("stopped after {} of {} tokens", done, total));
    }
  }
  return total;
}

Result<void> Calibrator::run_chunk(std::span<const Token> prompt, int64_t begin, int64_t n) {
  const StepSpan span{.cache = cache_.get(),
                      .tokens = prompt.subspan(static_cast<size_t>(begin), static_cast<size_t>(n))};
  // One row of logits tells a broken model from a working one.
  const int64_t last = n - 1;
  DS4_TRY_VOID(forward_->run({.spans = {&span, 1}, .logit_rows = {&last, 1}, .streams_in = {}}));
  backend_.device->download(std::as_writable_bytes(std::span(logits_)),
                            forward_->logits().row_data(0));
  if (!std::all_of(logits_.begin(), logits_.end(), [](float v) { return std::isfinite(v); })) {
    return fail(ErrorCode::kNonFinite,
                fmt::format("the logits after token {} are not finite", begin + n));
  }
  if (!draft_cache_) return {};
  const auto n_pairs = std::min(n, static_cast<int64_t>(prompt.size()) - 1 - begin);
  if (n_pairs < 1) return {};
  return run_draft(prompt.subspan(static_cast<size_t>(begin + 1), static_cast<size_t>(n_pairs)));
}

Result<void> Calibrator::run_draft(std::span<const Token> next_tokens) {
  const ModelConfig& config = model_.config();
  const auto n = static_cast<int64_t>(next_tokens.size());
  const Shape shape{n, config.n_hc, config.hidden};
  backend_.device->copy(streams_.data(), forward_->streams().data(),
                        shape.n_elements() * static_cast<int64_t>(sizeof(float)));
  const StepSpan span{.cache = draft_cache_.get(), .tokens = next_tokens};
  return forward_->run_draft({.spans = {&span, 1},
                              .logit_rows = {},
                              .streams_in = ConstTensor(streams_.data(), DType::kF32, shape)});
}

}  // namespace ds4
