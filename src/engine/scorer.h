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
  bool pin_threads = false;
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

  // The same piece by piece, with all logits: restart() begins a text, advance() evaluates further
  // tokens of it and shows the logits after each, f32 [vocab_size], valid during the call, with the
  // token's place in the text. Values do not depend on how the text is cut into calls. Errors:
  // kContextFull before anything happens, kInvalidArgument for a token outside the vocabulary, and
  // whatever `on_row` returns; after one of those the text has to be begun again.
  using OnRow = std::function<Result<void>(int64_t place, std::span<const float> logits)>;
  void restart();
  Result<void> advance(std::span<const Token> tokens, const OnRow& on_row);

  const Model& model() const { return model_; }
  const ScorerOptions& options() const { return options_; }
  Device& device() { return *backend_.device; }

 private:
  Scorer(Model model, const ScorerOptions& options) : model_(std::move(model)), options_(options) {}

  Result<void> run_chunk(std::span<const Token> tokens, const OnRow& on_row);

  Model model_;
  ScorerOptions options_;
  Backend backend_;
  std::unique_ptr<Forward> forward_;
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<KvCache> cache_;
  std::vector<float> row_;
  int64_t length_ = 0;  // of the text so far
};

}  // namespace ds4
