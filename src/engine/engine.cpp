#include "engine/engine.h"

#include <algorithm>

#include "engine/repack.h"
#include "engine/session.h"

namespace ds4 {

Result<std::unique_ptr<Engine>> Engine::create(Model model, const EngineOptions& options) {
  auto engine = std::make_unique<Engine>(Private{}, options);
  engine->model_ = std::move(model);
  DS4_TRY_VOID(engine->start(engine->model_->config(), engine->model_->weights()));
  return engine;
}

Result<std::unique_ptr<Engine>> Engine::create(const ModelConfig& config, const Weights& weights,
                                               const EngineOptions& options) {
  auto engine = std::make_unique<Engine>(Private{}, options);
  DS4_TRY_VOID(engine->start(config, weights));
  return engine;
}

Result<void> Engine::start(const ModelConfig& config, const Weights& weights) {
  config_ = &config;
  DS4_TRY(backend_, make_backend(options_.backend,
                                 {.n_threads = options_.n_threads,
                                  .pin_threads = options_.pin_threads,
                                  .integer_activations = options_.precision != Precision::hf32(),
                                  .trace = options_.profile_ops}));
  DS4_TRY(Forward forward,
          Forward::create(*backend_.device, *backend_.ops, config, weights,
                          {.precision = options_.precision,
                           .max_rows = options_.prefill_chunk_tokens + options_.max_sessions,
                           .max_logit_rows = options_.max_sessions,
                           .max_spans = options_.max_sessions}));
  forward_ = std::make_unique<Forward>(std::move(forward));
  if (options_.repack_bytes_max > 0) {
    backend_.ops->repack(repack_order(weights), options_.repack_bytes_max);
  }
  DS4_TRY(kv_pool_, KvPool::create(*backend_.device, config, forward_->cache_ratios(),
                                   kv_storage(options_.backend, options_.precision)));
  DS4_TRY_VOID(reserve_snapshot_pages());
  spans_.reserve(static_cast<size_t>(options_.max_sessions));
  logit_rows_.reserve(static_cast<size_t>(options_.max_sessions));
  return {};
}

// Pages for what only snapshots remember: as many whole pages of every layer as half their memory
// allows, but no more than one context of the model's full length.
Result<void> Engine::reserve_snapshot_pages() {
  constexpr int64_t kUnit = kPageRows * 128;  // positions that fill a page of a ratio-128 layer
  const int64_t unit_bytes = kv_pool_->page_bytes_needed(kUnit);
  if (unit_bytes == 0) return {};
  const int64_t n_units = options_.snapshots.bytes_max / 2 / unit_bytes;
  return kv_pool_->reserve(std::min(n_units * kUnit, config_->max_position));
}

int64_t Engine::workspace_bytes() const {
  return Workspace::bytes_needed(config(), forward_->options().max_rows,
                                 forward_->options().max_logit_rows);
}

Result<void> Engine::step(std::span<const SessionStep> steps) {
  spans_.clear();
  logit_rows_.clear();
  int64_t row = 0;
  for (const SessionStep& s : steps) {
    KvCache* cache = &s.session->cache_;
    for (const StepSpan& earlier : spans_) {
      if (earlier.cache == cache) {
        return fail(ErrorCode::kInvalidArgument, "step: a session may have one part of a step");
      }
    }
    spans_.push_back({.cache = cache, .tokens = s.tokens, .kind = s.kind});
    row += static_cast<int64_t>(s.tokens.size());
    logit_rows_.push_back(row - 1);
  }
  // Sessions come first: snapshots make room for them.
  auto done = forward_->run({.spans = spans_, .logit_rows = logit_rows_, .streams_in = {}});
  while (!done && done.error().code == ErrorCode::kOutOfMemory && snapshots_.drop_one()) {
    done = forward_->run({.spans = spans_, .logit_rows = logit_rows_, .streams_in = {}});
  }
  if (!done) return done;
  const ConstTensor logits = forward_->logits();
  for (size_t i = 0; i < steps.size(); ++i) {
    Session& session = *steps[i].session;
    session.tokens_.insert(session.tokens_.end(), steps[i].tokens.begin(), steps[i].tokens.end());
    backend_.device->download(std::as_writable_bytes(std::span(session.logits_)),
                              logits.row_data(static_cast<int64_t>(i)));
  }
  return {};
}

}  // namespace ds4
