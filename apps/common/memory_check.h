#pragma once
// Whether a program's plan fits into this machine's memory, said before it is allocated.
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "engine/memory_plan.h"
#include "model/config.h"

namespace ds4::app {

// --mem-limit, as bytes and as it was typed.
struct MemoryLimit {
  std::optional<int64_t> bytes;
  std::string text;
};

// What the system leaves us or the user allows, whichever is less.
MemoryBudget memory_budget(int64_t weight_bytes, const MemoryLimit& limit);

// What a plan that fits leaves for what only saves time.
struct GrantedMemory {
  int64_t snapshot_bytes = 0;
  int64_t repack_bytes = 0;
};

// `input` and its plan, with snapshots (if they may) and copies of weights (if they do not exist
// yet) made smaller where the plan would take more than `allowed`: they save time and nothing else.
// It may still not fit. Errors: kInvalidArgument for a context outside the model's.
struct FittedPlan {
  MemoryPlanInput input;
  MemoryPlan plan;
};
Result<FittedPlan> fit_memory_plan(const ModelConfig& config, MemoryPlanInput input,
                                   const MemoryBudget& allowed, bool snapshots_may_shrink);

// Prints the plan on standard error: one line, or a line a part when `verbose`. With
// `snapshots_may_shrink` they take what is left, and so do copies of weights. Errors:
// kOutOfMemory with the numbers and the largest context that fits; kInvalidArgument for a context
// outside the model's.
Result<GrantedMemory> check_memory_plan(const ModelConfig& config, MemoryPlanInput input,
                                        const MemoryLimit& limit, bool snapshots_may_shrink,
                                        bool verbose);

}  // namespace ds4::app
