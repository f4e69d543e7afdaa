#pragma once
// A loaded model on a backend: what sessions share. Sessions hold their own KV cache; the engine
// holds weights, kernels and the workspace of the step that is running, so one step at a time.
//
//   auto engine = Engine::create(Model::open(path), {.backend = BackendKind::kCpu});
//   auto session = Session::create(**engine, {.ctx_tokens = 8192});
//   session->sync(prompt, stop);
//   Token next = argmax(session->logits());
//
// Single-thread: one inference worker owns the engine and its sessions. Sessions must not outlive
// it.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "engine/forward.h"
#include "engine/snapshot.h"
#include "model/model.h"

namespace ds4 {

class Session;

struct EngineOptions {
  BackendKind backend = BackendKind::kCpu;
  int n_threads = 0;         // below 1: one per processor this process may run on
  bool pin_threads = false;  // each thread on a processor of its own, the calling one included
  Precision precision = Precision::official();
  int64_t prefill_chunk_tokens = 512;  // rows per prefill step; sizes the workspace
  int64_t max_sessions = 16;           // sessions in one step
  SnapshotOptions snapshots;
  // For copies of weights in the backend's own form (engine/repack.h). 0: none are made.
  int64_t repack_bytes_max = 0;
  bool profile_ops = false;  // count and time every op: Engine::op_trace()
};

// One session's part of a step.
struct SessionStep {
  Session* session = nullptr;
  std::span<const Token> tokens;  // what follows the session's history
  SpanKind kind = SpanKind::kPrefill;
};

class Engine {
  struct Private {};  // only create() can name it

 public:
  Engine(Private, const EngineOptions& options)
      : options_(options), snapshots_(options.snapshots) {}

  // Errors: those of make_backend and of the memory that workspace and snapshot pages take.
  static Result<std::unique_ptr<Engine>> create(Model model, const EngineOptions& options);
  // Over weights that are somebody else's and outlive the engine; there is no model() then.
  static Result<std::unique_ptr<Engine>> create(const ModelConfig& config, const Weights& weights,
                                                const EngineOptions& options);

  // Evaluates further tokens of several different sessions in one pass over the weights. Each
  // session ends with the tokens in its history and the logits of its last one, exactly as if it
  // had been alone. Errors leave every session as it was, except kDevice: kInvalidArgument (a
  // session twice, no tokens, one outside the vocabulary, too many rows or sessions), kContextFull,
  // and kOutOfMemory when sessions restored from each other need more pages than there are.
  Result<void> step(std::span<const SessionStep> steps);

  const Model& model() const {
    DS4_CHECK(model_.has_value());
    return *model_;
  }
  const ModelConfig& config() const { return *config_; }
  const EngineOptions& options() const { return options_; }
  Device& device() { return *backend_.device; }
  SnapshotStore& snapshots() { return snapshots_; }
  int64_t workspace_bytes() const;
  // The profile of this engine's ops; null without EngineOptions::profile_ops.
  TraceOps* op_trace() const { return backend_.trace; }

  // For sessions: where their KV cache comes from, and the layers it is made for.
  KvPool& kv_pool() { return *kv_pool_; }
  std::span<const int> cache_ratios() const { return forward_->cache_ratios(); }

 private:
  Result<void> start(const ModelConfig& config, const Weights& weights);
  Result<void> reserve_snapshot_pages();

  std::optional<Model> model_;
  const ModelConfig* config_ = nullptr;
  EngineOptions options_;
  Backend backend_;
  std::unique_ptr<KvPool> kv_pool_;
  SnapshotStore snapshots_;
  std::unique_ptr<Forward> forward_;
  std::vector<StepSpan> spans_;
  std::vector<int64_t> logit_rows_;
};

}  // namespace ds4
