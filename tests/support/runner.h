#pragma once
// Runs prompts through a Forward, chunk by chunk, and keeps the logits of the rows a test asks for.
#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "engine/forward.h"
#include "model/config.h"

namespace ds4::test {

template <typename T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}
inline void must(Result<void> result) {
  if (!result) throw std::runtime_error(result.error().message);
}

inline std::vector<float> to_host(Device& device, ConstTensor t) {
  std::vector<float> values(static_cast<size_t>(t.shape().n_elements()));
  device.download(std::as_writable_bytes(std::span(values)), t.data());
  return values;
}

// A backend and a walk over a model. The config and weights must outlive it.
class Runner {
 public:
  struct Options {
    Precision precision;
    int n_threads = 0;
    int64_t max_rows = 512;
    int64_t max_logit_rows = 16;
    int layer_begin = 0;
    int layer_end = -1;
    std::optional<KvStorage> storage;  // another way to keep rows than the backend's
  };

  Runner(BackendKind kind, const ModelConfig& config, const Weights& weights,
         const Options& options)
      : config_(config),
        backend_(must(
            make_backend(kind, {.n_threads = options.n_threads,
                                .integer_activations = options.precision != Precision::hf32()}))),
        forward_(must(Forward::create(*backend_.device, *backend_.ops, config, weights,
                                      {.precision = options.precision,
                                       .max_rows = options.max_rows,
                                       .max_logit_rows = options.max_logit_rows,
                                       .layer_begin = options.layer_begin,
                                       .layer_end = options.layer_end}))),
        storage_(options.storage.value_or(kv_storage(kind, options.precision))),
        pool_(must(KvPool::create(*backend_.device, config, forward_.cache_ratios(), storage_))),
        draft_pool_(must(KvPool::create(*backend_.device, config, kDraftRatios, storage_))) {}

  KvCache new_cache(int64_t capacity) { return must(KvCache::create(*pool_, capacity)); }
  KvCache new_draft_cache(int64_t capacity) {
    return must(KvCache::create(*draft_pool_, capacity));
  }

  // Appends `tokens` to the cache in chunks; returns the logits of the last `n_logits` positions.
  // With `draft`, the MTP block follows over every pair of neighbours and `draft_logits` gets the
  // rows of the last min(n_logits, n - 1) pairs.
  std::vector<float> prefill(KvCache& cache, std::span<const Token> tokens, int64_t n_logits,
                             KvCache* draft = nullptr, std::vector<float>* draft_logits = nullptr) {
    const int64_t n = static_cast<int64_t>(tokens.size()), chunk = forward_.options().max_rows;
    const int64_t n_drafts = std::min(n_logits, n - 1);
    std::vector<float> logits;
    for (int64_t at = 0; at < n; at += chunk) {
      const int64_t rows = std::min(chunk, n - at);
      append(logits, step({&cache, slice(tokens, at, rows), SpanKind::kPrefill}, at, n - n_logits));
      const int64_t pairs = std::min(rows, n - 1 - at);
      if (draft == nullptr || pairs < 1) continue;
      const std::vector<float> streams = to_host(device(), forward_.streams());
      const ConstTensor in(reinterpret_cast<const std::byte*>(streams.data()), DType::kF32,
                           {pairs, config_.n_hc, config_.hidden});
      const StepSpan span{draft, slice(tokens, at + 1, pairs), SpanKind::kPrefill};
      const std::vector<int64_t> wanted = rows_from(at, pairs, n - 1 - n_drafts);
      must(forward_.run_draft({.spans = {&span, 1}, .logit_rows = wanted, .streams_in = in}));
      if (!wanted.empty()) append(*draft_logits, to_host(device(), forward_.logits()));
    }
    return logits;
  }

  // One token; its logits.
  std::vector<float> decode(KvCache& cache, Token token) {
    const StepSpan span{&cache, {&token, 1}, SpanKind::kDecode};
    const int64_t row = 0;
    must(forward_.run({.spans = {&span, 1}, .logit_rows = {&row, 1}, .streams_in = {}}));
    return to_host(device(), forward_.logits());
  }

  Device& device() { return *backend_.device; }
  Ops& ops() { return *backend_.ops; }
  KvPool& pool() { return *pool_; }
  Forward& forward() { return forward_; }

 private:
  static std::span<const Token> slice(std::span<const Token> tokens, int64_t at, int64_t n) {
    return tokens.subspan(static_cast<size_t>(at), static_cast<size_t>(n));
  }
  static void append(std::vector<float>& out, const std::vector<float>& more) {
    out.insert(out.end(), more.begin(), more.end());
  }
  // Rows of a chunk of `n` at position `at` that are at position `first` or later.
  static std::vector<int64_t> rows_from(int64_t at, int64_t n, int64_t first) {
    std::vector<int64_t> rows;
    for (int64_t i = std::max<int64_t>(0, first - at); i < n; ++i) rows.push_back(i);
    return rows;
  }
  std::vector<float> step(const StepSpan& span, int64_t at, int64_t first_wanted) {
    const std::vector<int64_t> wanted =
        rows_from(at, static_cast<int64_t>(span.tokens.size()), first_wanted);
    must(forward_.run({.spans = {&span, 1}, .logit_rows = wanted, .streams_in = {}}));
    return wanted.empty() ? std::vector<float>{} : to_host(device(), forward_.logits());
  }

  const ModelConfig& config_;
  static constexpr int kDraftRatios[] = {0};

  Backend backend_;
  Forward forward_;
  const KvStorage storage_;
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<KvPool> draft_pool_;
};

}  // namespace ds4::test
