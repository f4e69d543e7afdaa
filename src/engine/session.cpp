#include "engine/session.h"

#include <fmt/format.h>

#include <algorithm>

namespace ds4 {

Session::Session(Engine& engine, KvCache cache)
    : engine_(&engine),
      cache_(std::move(cache)),
      logits_(static_cast<size_t>(engine.config().vocab_size)) {
  tokens_.reserve(static_cast<size_t>(cache_.capacity()));
}

Result<Session> Session::create(Engine& engine, const SessionOptions& options) {
  const int64_t max = engine.config().max_position;
  if (options.ctx_tokens < 1 || options.ctx_tokens > max) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("context: expected 1 .. {} tokens, found {}", max, options.ctx_tokens));
  }
  DS4_TRY(KvCache cache, KvCache::create(engine.device(), engine.config(), engine.cache_ratios(),
                                         options.ctx_tokens));
  return Session(engine, std::move(cache));
}

int64_t Session::bytes_needed(const Engine& engine, const SessionOptions& options) {
  return KvCache::bytes_needed(engine.config(), engine.cache_ratios(), options.ctx_tokens);
}

Result<SyncStats> Session::sync(std::span<const Token> prompt, std::stop_token stop,
                                const Progress& progress) {
  const int64_t total = static_cast<int64_t>(prompt.size());
  if (total == 0) return fail(ErrorCode::kInvalidArgument, "prompt: expected at least one token");
  if (total > cache_.capacity()) {
    return fail(ErrorCode::kContextFull,
                fmt::format("the prompt has {} tokens, the context holds {} (see --ctx)", total,
                            cache_.capacity()));
  }
  const auto [mine, theirs] =
      std::mismatch(tokens_.begin(), tokens_.end(), prompt.begin(), prompt.end());
  const bool continues = mine == tokens_.end() && theirs != prompt.end();
  if (!continues) reset();

  SyncStats stats;
  stats.reused_tokens = static_cast<int64_t>(tokens_.size());
  const int64_t chunk = engine_->options().prefill_chunk_tokens;
  for (int64_t done = stats.reused_tokens; done < total;) {
    if (stop.stop_requested()) {
      return fail(ErrorCode::kCancelled,
                  fmt::format("stopped after {} of {} prompt tokens", done, total));
    }
    // Chunks end at multiples of the chunk size, wherever the sync began.
    const int64_t n = std::min(total - done, chunk - done % chunk);
    const SessionStep step{
        .session = this,
        .tokens = prompt.subspan(static_cast<size_t>(done), static_cast<size_t>(n))};
    DS4_TRY_VOID(engine_->step({&step, 1}));
    done += n;
    stats.evaluated_tokens += n;
    if (progress) progress(done, total);
  }
  return stats;
}

Result<void> Session::decode(Token token) {
  const SessionStep step{.session = this, .tokens = {&token, 1}};
  return engine_->step({&step, 1});
}

void Session::reset() {
  cache_.reset();
  tokens_.clear();
}

}  // namespace ds4
