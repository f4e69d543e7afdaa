#include "engine/engine.h"

#include "engine/session.h"

namespace ds4 {

Result<std::unique_ptr<Engine>> Engine::create(Model model, const EngineOptions& options) {
  auto engine = std::make_unique<Engine>(Private{}, std::move(model), options);
  DS4_TRY(
      engine->backend_,
      make_backend(options.backend, {.n_threads = options.n_threads,
                                     .integer_activations = options.precision != Precision::hf32(),
                                     .trace = options.profile_ops}));
  DS4_TRY(Forward forward,
          Forward::create(*engine->backend_.device, *engine->backend_.ops, engine->model_.config(),
                          engine->model_.weights(),
                          {.precision = options.precision,
                           .max_rows = options.prefill_chunk_tokens + options.max_sessions,
                           .max_logit_rows = options.max_sessions}));
  engine->forward_ = std::make_unique<Forward>(std::move(forward));
  engine->spans_.reserve(static_cast<size_t>(options.max_sessions));
  engine->logit_rows_.reserve(static_cast<size_t>(options.max_sessions));
  return engine;
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
    const int64_t n = static_cast<int64_t>(s.tokens.size());
    spans_.push_back({.cache = &s.session->cache_,
                      .tokens = s.tokens,
                      .kind = n == 1 ? SpanKind::kDecode : SpanKind::kPrefill});
    row += n;
    logit_rows_.push_back(row - 1);
  }
  DS4_TRY_VOID(forward_->run({.spans = spans_, .logit_rows = logit_rows_, .streams_in = {}}));
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
