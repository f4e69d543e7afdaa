#pragma once
// What an engine and its sessions will take, worked out before anything big is allocated: programs
// print the plan and refuse, with numbers, what cannot fit. A machine that swaps is slower than one
// that says no.
//
// Pure arithmetic over shapes; nothing here asks the system or allocates. Thread-safe.
#include <cstdint>
#include <string>

#include "backend/backend.h"
#include "base/result.h"
#include "model/config.h"

namespace ds4 {

struct MemoryPlanInput {
  int64_t weight_bytes = 0;  // of the model files
  BackendKind backend = BackendKind::kCpu;
  BackendOptions backend_options;
  Precision precision;
  int64_t prefill_chunk_tokens = 512;  // as in EngineOptions
  int64_t max_sessions = 1;            // sessions in one step
  int64_t n_sessions = 1;              // that exist at a time
  int64_t ctx_tokens = 32768;          // of each
  int64_t snapshot_bytes = 0;          // budget of the engine's snapshots
  int64_t repack_bytes = 0;            // copies of weights: EngineOptions::repack_bytes_max
  bool repack_may_shrink = true;       // false: the copies exist already
  int64_t statistics_bytes = 0;        // of an observer of the walk
};

// Bytes, by what they are for.
struct MemoryPlan {
  // The model files. They are mapped, so the system can drop pages that are not in use; but every
  // decode step reads all weights it is routed to, and reading them from a disk again is what makes
  // a machine crawl. So they count in full.
  int64_t weights = 0;
  int64_t repacked = 0;  // copies of weights in the backend's own form
  int64_t kv_cache = 0;  // of all sessions, at their full context
  int64_t snapshots = 0;
  int64_t workspace = 0;   // activations of the largest step
  int64_t scratch = 0;     // of the backend's ops
  int64_t sessions = 0;    // their token histories and logits
  int64_t statistics = 0;  // of an observer
  int64_t program = 0;     // code, tokenizer tables, threads
  int64_t headroom = 0;    // page tables, allocator overhead, what nobody thought of

  int64_t n_sessions = 0;
  int64_t ctx_tokens = 0;

  int64_t total() const {
    return weights + repacked + kv_cache + snapshots + workspace + scratch + sessions + statistics +
           program + headroom;
  }
  // Errors: kInvalidArgument for a context outside 1 .. the model's maximum.
  static Result<MemoryPlan> make(const ModelConfig& config, const MemoryPlanInput& input);

  // "5.20 GiB: weights 4.00 GiB, KV cache 920.1 MiB at 1048576 tokens, ...".
  std::string summary() const;
};

// What may be used, and who says so: "--mem-limit 8G", "MemAvailable of /proc/meminfo".
struct MemoryBudget {
  int64_t bytes = 0;
  std::string source;
};

// Whether `plan`, made from `input`, fits. Errors: kOutOfMemory with the budget, the plan's parts,
// and the largest context that would fit (of as many sessions).
Result<void> check_memory(const MemoryPlan& plan, const MemoryBudget& budget,
                          const ModelConfig& config, const MemoryPlanInput& input);

// The largest context, a multiple of 1024 from there on, whose plan stays within `budget_bytes`; 0
// when none does.
int64_t largest_context(int64_t budget_bytes, const ModelConfig& config,
                        const MemoryPlanInput& input);

}  // namespace ds4
