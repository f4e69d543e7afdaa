#include "engine/session.h"

#include <fmt/format.h>

#include <algorithm>

namespace ds4 {
namespace {

int64_t common_prefix(std::span<const Token> a, std::span<const Token> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

}  // namespace

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
  DS4_TRY(KvCache cache, KvCache::create(engine.kv_pool(), options.ctx_tokens));
  return Session(engine, std::move(cache));
}

int64_t Session::bytes_needed(const Engine& engine, const SessionOptions& options) {
  return KvCache::bytes_needed(engine.config(), engine.cache_ratios(),
                               kv_storage(engine.options().backend, engine.options().precision),
                               options.ctx_tokens);
}

int64_t Session::state_bytes() const {
  return cache_.live_bytes() + static_cast<int64_t>(std::as_bytes(std::span(tokens_)).size() +
                                                    std::as_bytes(std::span(logits_)).size());
}

Result<void> Session::check_prompt(std::span<const Token> prompt) const {
  const int64_t total = static_cast<int64_t>(prompt.size());
  if (total == 0) return fail(ErrorCode::kInvalidArgument, "prompt: expected at least one token");
  if (total > cache_.capacity()) {
    return fail(ErrorCode::kContextFull,
                fmt::format("the prompt has {} tokens, the context holds {} (see --ctx)", total,
                            cache_.capacity()));
  }
  const int64_t vocab = engine_->config().vocab_size;
  const auto bad =
      std::ranges::find_if(prompt, [&](Token token) { return token < 0 || token >= vocab; });
  if (bad != prompt.end()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("prompt token {}: expected 0 .. {}, found {}", bad - prompt.begin(),
                            vocab - 1, *bad));
  }
  return {};
}

Result<int64_t> Session::go_to_longest(std::span<const Token> prompt) {
  SnapshotStore& store = engine_->snapshots();
  const int64_t mine = std::ssize(tokens_), total = std::ssize(prompt);
  const bool continues = common_prefix(tokens_, prompt) == mine;
  const Snapshot* best = store.find(prompt, total);
  if (continues && (best == nullptr || best->length() <= mine)) return mine;
  if (!continues) {
    DS4_TRY_VOID(keep_snapshot(SnapshotKind::kPassing));
    best = store.find(prompt, total);  // the new one may have taken the place of the other
  }
  if (best == nullptr) {
    reset();
    return 0;
  }
  DS4_TRY_VOID(restore(*best));
  return best->length();
}

Result<SyncStats> Session::sync(std::span<const Token> prompt, std::stop_token stop,
                                const Progress& progress) {
  DS4_TRY_VOID(check_prompt(prompt));
  const int64_t total = static_cast<int64_t>(prompt.size());
  SyncStats stats;
  DS4_TRY(stats.reused_tokens, go_to_longest(prompt));

  const std::vector<SnapshotPoint> points =
      snapshot_points(prompt, stats.reused_tokens, engine_->snapshots().options());
  auto point = points.begin();
  const int64_t chunk = engine_->options().prefill_chunk_tokens;
  for (int64_t done = stats.reused_tokens; done < total;) {
    if (stop.stop_requested()) {
      return fail(ErrorCode::kCancelled,
                  fmt::format("stopped after {} of {} prompt tokens", done, total));
    }
    // Chunks end at multiples of the chunk size, wherever the sync began.
    int64_t n = std::min(total - done, chunk - done % chunk);
    if (point != points.end()) n = std::min(n, point->length - done);
    const SessionStep step{
        .session = this,
        .tokens = prompt.subspan(static_cast<size_t>(done), static_cast<size_t>(n)),
        .kind = SpanKind::kPrefill};
    DS4_TRY_VOID(engine_->step({&step, 1}));
    done += n;
    stats.evaluated_tokens += n;
    if (point != points.end() && point->length == done) {
      DS4_TRY_VOID(keep_snapshot(point->kind));
      ++point;
    }
    if (progress) progress(done, total);
  }
  return stats;
}

Result<void> Session::decode(Token token) {
  const SessionStep step{.session = this, .tokens = {&token, 1}, .kind = SpanKind::kDecode};
  return engine_->step({&step, 1});
}

// Memory that is not there is a reason to keep no snapshot, and none to fail.
Result<void> Session::keep_snapshot(SnapshotKind kind) {
  SnapshotStore& store = engine_->snapshots();
  const int64_t bytes =
      cache_.capture_bytes() + static_cast<int64_t>(std::as_bytes(std::span(tokens_)).size() +
                                                    std::as_bytes(std::span(logits_)).size());
  if (tokens_.empty() || !store.wants(tokens_, kind, bytes)) return {};
  auto taken = snapshot();
  if (taken) store.add(kind, std::move(*taken));
  if (!taken && taken.error().code != ErrorCode::kOutOfMemory) {
    return tl::unexpected(std::move(taken.error()));
  }
  return {};
}

Result<Snapshot> Session::snapshot() const {
  Snapshot snapshot;
  DS4_TRY(snapshot.kv, cache_.capture());
  snapshot.tokens.assign(tokens_.begin(), tokens_.end());
  snapshot.logits.assign(logits_.begin(), logits_.end());
  return snapshot;
}

Result<void> Session::restore(const Snapshot& snapshot) {
  DS4_TRY_VOID(cache_.restore(snapshot.kv));
  tokens_.assign(snapshot.tokens.begin(), snapshot.tokens.end());
  std::ranges::copy(snapshot.logits, logits_.begin());
  return {};
}

Result<Session> Session::fork() const {
  DS4_TRY(const Snapshot now, snapshot());
  DS4_TRY(Session twin, create(*engine_, {.ctx_tokens = ctx_tokens()}));
  DS4_TRY_VOID(twin.restore(now));
  return twin;
}

void Session::reset() {
  cache_.reset();
  tokens_.clear();
  std::ranges::fill(logits_, 0.0f);
}

}  // namespace ds4
