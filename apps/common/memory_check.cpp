#include "common/memory_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"
#include "base/system_memory.h"
#include "common/terminal.h"

namespace ds4::app {
namespace {

std::string parts(const MemoryPlan& plan) {
  std::string text;
  const auto line = [&](const char* name, int64_t bytes, const std::string& note) {
    if (bytes > 0) text += fmt::format("  {:<12}{:>12}  {}\n", name, format_byte_size(bytes), note);
  };
  line("weights", plan.weights, "mapped from the file");
  line("repacked", plan.repacked, "copies of weights in a faster form");
  line("KV cache", plan.kv_cache, fmt::format("{} tokens", plan.ctx_tokens));
  line("snapshots", plan.snapshots, "to go back to");
  line("workspace", plan.workspace, "activations of the largest step");
  line("scratch", plan.scratch, "of single operations");
  line("session", plan.sessions, "token history and logits");
  line("statistics", plan.statistics, "sums of the importance matrix");
  line("program", plan.program, "code, tokenizer, threads");
  line("headroom", plan.headroom, "page tables, reserve");
  return text;
}

}  // namespace

MemoryBudget memory_budget(int64_t weight_bytes, const MemoryLimit& limit) {
  SystemMemory memory = system_memory(weight_bytes, process_limits());
  if (limit.bytes && *limit.bytes < memory.available_bytes) {
    return {*limit.bytes, "limit --mem-limit " + limit.text};
  }
  return {memory.available_bytes, std::move(memory.source)};
}

Result<FittedPlan> fit_memory_plan(const ModelConfig& config, MemoryPlanInput input,
                                   const MemoryBudget& allowed, bool snapshots_may_shrink) {
  DS4_TRY(MemoryPlan plan, MemoryPlan::make(config, input));
  const auto shrink = [&](int64_t& bytes) -> Result<void> {
    const int64_t missing = plan.total() - allowed.bytes;
    if (missing <= 0 || bytes == 0) return {};
    bytes = std::max<int64_t>(0, bytes - missing);
    DS4_TRY(plan, MemoryPlan::make(config, input));
    return {};
  };
  if (snapshots_may_shrink) DS4_TRY_VOID(shrink(input.snapshot_bytes));
  if (input.repack_may_shrink) DS4_TRY_VOID(shrink(input.repack_bytes));
  return FittedPlan{input, plan};
}

Result<GrantedMemory> check_memory_plan(const ModelConfig& config, MemoryPlanInput input,
                                        const MemoryLimit& limit, bool snapshots_may_shrink,
                                        bool verbose) {
  const MemoryBudget allowed = memory_budget(input.weight_bytes, limit);
  DS4_TRY(const FittedPlan fitted, fit_memory_plan(config, input, allowed, snapshots_may_shrink));
  const MemoryPlan& plan = fitted.plan;
  DS4_TRY_VOID(check_memory(plan, allowed, config, fitted.input));
  if (verbose) {
    print_error(fmt::format("memory {} of {} ({})\n{}", format_byte_size(plan.total()),
                            format_byte_size(allowed.bytes), allowed.source, parts(plan)));
  } else {
    print_error(fmt::format("memory {}\n", plan.summary()));
  }
  return GrantedMemory{fitted.input.snapshot_bytes, fitted.input.repack_bytes};
}

}  // namespace ds4::app
