#pragma once
// Runs calibration prompts through a model and sums up what its routed experts are fed
// (ops/importance_ops.h). Each prompt starts from nothing; where the model has an MTP block, that
// follows over every pair of neighbouring tokens, as it does when it drafts.
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
#include "ops/importance_ops.h"

namespace ds4 {

struct CalibratorOptions {
  BackendKind backend = BackendKind::kCpu;
  int n_threads = 0;
  bool pin_threads = false;
  Precision precision = Precision::official();
  int64_t ctx_tokens = 32768;  // longest prompt
  int64_t chunk_tokens = 512;  // rows of a step
};

class Calibrator {
 public:
  // Errors: those of Engine::create and Session::create.
  static Result<std::unique_ptr<Calibrator>> create(Model model, const CalibratorOptions& options);

  // Called between chunks with the tokens of the prompt done so far; false stops.
  using Progress = std::function<bool(int64_t done)>;

  // Evaluates a prompt; one longer than the context is cut. Returns the tokens evaluated. Errors:
  // kInvalidArgument for an empty prompt or a token outside the vocabulary, kNonFinite when the
  // model computes no finite numbers; kCancelled, after which the finished chunks count.
  Result<int64_t> add(std::span<const Token> prompt, const Progress& progress = {});

  // What this takes beyond an engine with one session: for MemoryPlanInput::statistics_bytes.
  static int64_t bytes_needed(const ModelConfig& config, bool with_mtp, int64_t chunk_tokens);

  // See ImportanceOps::statistics().
  const std::vector<ExpertStatistics>& statistics() const { return importance_->statistics(); }
  const Model& model() const { return model_; }

 private:
  Calibrator(Model model, const CalibratorOptions& options)
      : model_(std::move(model)), options_(options) {}

  Result<void> start();
  Result<void> run_chunk(std::span<const Token> prompt, int64_t begin, int64_t n);
  Result<void> run_draft(std::span<const Token> next_tokens);

  Model model_;
  CalibratorOptions options_;
  Backend backend_;
  ImportanceOps* importance_ = nullptr;  // backend_.ops
  std::unique_ptr<Forward> forward_;
  std::unique_ptr<KvPool> pool_, draft_pool_;
  std::unique_ptr<KvCache> cache_, draft_cache_;
  Buffer streams_;  // of a chunk, for the MTP block: Forward's own are written by its walk
  std::vector<float> logits_;
};

}  // namespace ds4
