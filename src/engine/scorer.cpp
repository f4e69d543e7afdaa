#include "engine/scorer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/log_softmax.h"

namespace ds4 {
namespace {

Result<void> check_token(Token token, int64_t vocab_size) {
  if (token >= 0 && token < vocab_size) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("token {}: expected 0 .. {}", token, vocab_size - 1));
}

}  // namespace

Result<std::unique_ptr<Scorer>> Scorer::create(Model model, const ScorerOptions& options) {
  std::unique_ptr<Scorer> scorer(new Scorer(std::move(model), options));
  const ModelConfig& config = scorer->model_.config();
  if (options.ctx_tokens < 1 || options.ctx_tokens > config.max_position) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("context: expected 1 .. {} tokens, found {}", config.max_position,
                            options.ctx_tokens));
  }
  DS4_TRY(scorer->backend_,
          make_backend(options.backend,
                       {.n_threads = options.n_threads,
                        .pin_threads = options.pin_threads,
                        .integer_activations = options.precision != Precision::hf32()}));
  Device& device = *scorer->backend_.device;
  DS4_TRY(Forward forward,
          Forward::create(device, *scorer->backend_.ops, config, scorer->model_.weights(),
                          {.precision = options.precision,
                           .max_rows = options.chunk_tokens,
                           .max_logit_rows = options.chunk_tokens}));
  scorer->forward_ = std::make_unique<Forward>(std::move(forward));
  DS4_TRY(scorer->pool_, KvPool::create(device, config, scorer->forward_->cache_ratios(),
                                        kv_storage(options.backend, options.precision)));
  DS4_TRY(KvCache cache, KvCache::create(*scorer->pool_, options.ctx_tokens));
  scorer->cache_ = std::make_unique<KvCache>(std::move(cache));
  scorer->row_.resize(static_cast<size_t>(config.vocab_size));
  return scorer;
}

Result<std::vector<double>> Scorer::score(std::span<const Token> tokens, const Progress& progress) {
  const int64_t total = static_cast<int64_t>(tokens.size());
  if (total < 2) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("score: expected at least 2 tokens, found {}", total));
  }
  if (total > options_.ctx_tokens) {
    return fail(ErrorCode::kContextFull,
                fmt::format("the text has {} tokens, the context holds {} (see --ctx)", total,
                            options_.ctx_tokens));
  }
  restart();
  std::vector<double> out;
  out.reserve(tokens.size());
  const auto on_row = [&](int64_t place, std::span<const float> logits) -> Result<void> {
    const Token next = tokens[static_cast<size_t>(place + 1)];
    DS4_TRY_VOID(check_token(next, std::ssize(logits)));
    const double value = LogSoftmax(logits).of(logits[static_cast<size_t>(next)]);
    if (!std::isfinite(value)) {
      return fail(ErrorCode::kNonFinite,
                  fmt::format("the logits after token {} are not finite", place));
    }
    out.push_back(value);
    return {};
  };
  // The last token is scored, not evaluated: what would follow it is of no interest.
  for (int64_t done = 0; done < total - 1;) {
    const int64_t n = std::min(total - 1 - done, options_.chunk_tokens);
    DS4_TRY_VOID(
        advance(tokens.subspan(static_cast<size_t>(done), static_cast<size_t>(n)), on_row));
    done += n;
    if (progress && !progress(done, total - 1)) {
      return fail(ErrorCode::kCancelled, fmt::format("stopped after {} of {} tokens", done, total));
    }
  }
  return out;
}

void Scorer::restart() {
  cache_->reset();
  length_ = 0;
}

Result<void> Scorer::advance(std::span<const Token> tokens, const OnRow& on_row) {
  const int64_t total = length_ + std::ssize(tokens);
  if (total > options_.ctx_tokens) {
    return fail(ErrorCode::kContextFull,
                fmt::format("the text has {} tokens, the context holds {} (see --ctx)", total,
                            options_.ctx_tokens));
  }
  while (!tokens.empty()) {
    const size_t n = std::min(tokens.size(), static_cast<size_t>(options_.chunk_tokens));
    DS4_TRY_VOID(run_chunk(tokens.first(n), on_row));
    tokens = tokens.subspan(n);
  }
  return {};
}

Result<void> Scorer::run_chunk(std::span<const Token> tokens, const OnRow& on_row) {
  const StepSpan span{.cache = cache_.get(), .tokens = tokens};
  std::vector<int64_t> rows(tokens.size());
  std::iota(rows.begin(), rows.end(), int64_t{0});
  DS4_TRY_VOID(forward_->run({.spans = {&span, 1}, .logit_rows = rows, .streams_in = {}}));
  for (int64_t i = 0; i < std::ssize(tokens); ++i) {
    backend_.device->download(std::as_writable_bytes(std::span(row_)),
                              forward_->logits().row_data(i));
    DS4_TRY_VOID(on_row(length_ + i, row_));
  }
  length_ += std::ssize(tokens);
  return {};
}

}  // namespace ds4
