#pragma once
// How likely a given text is: the log-probability of each token after those before it. It needs
// logits of every position, where a Session keeps the last row of a step, so it drives the walk
// itself, with a head workspace of `chunk_tokens` rows.
//
// Single-thread.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "engine/forward.h"
#include "engine/kv_cache.h"
#include "model/model.h"

namespace ds4 {

struct ScorerOptions {
  BackendKind backend = BackendKind::kCpu;
  int n_threads = 0;
  Precision precision = Precision::official();
  int64_t ctx_tokens = 32768;  // longest text
  int64_t chunk_tokens = 256;  // rows of a step; logits take 4 * vocabulary bytes a row
};

class Scorer {
 public:
  // Errors: those of Engine::create and Session::create.
  static Result<std::unique_ptr<Scorer>> create(Model model, const ScorerOptions& options);

  // Called between chunks with the tokens done so far and in all; false stops.
  using Progress = std::function<bool(int64_t done, int64_t total)>;

  // log p(tokens[i] | tokens[0 .. i-1]) for i = 1 .. n-1, in nats: n - 1 values. The same whatever
  // the chunk. Errors: kInvalidArgument below two tokens, kContextFull, kCancelled, kNonFinite.
  Result<std::vector<double>> score(std::span<const Token> tokens, const Progress& progress = {});

 private:
  Scorer(Model model, const ScorerOptions& options) : model_(std::move(model)), options_(options) {}

  Result<void> score_chunk(std::span<const Token> tokens, int64_t begin, int64_t n,
                           std::vector<double>& out);

  Model model_;
  ScorerOptions options_;
  Backend backend_;
  std::unique_ptr<Forward> forward_;
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<KvCache> cache_;
  std::vector<float> row_;
};

}  // namespace ds4
