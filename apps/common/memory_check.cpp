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

Result<GrantedMemory> check_memory_plan(const ModelConfig& config, MemoryPlanInput input,
                                        const MemoryLimit& limit, bool snapshots_may_shrink,
                                        bool verbose) {
  DS4_TRY(MemoryPlan plan, MemoryPlan::make(config, input));
  const MemoryBudget allowed = memory_budget(input.weight_bytes, limit);
  if (plan.total() > allowed.bytes && snapshots_may_shrink) {
    // Snapshots save time and nothing else: they take what is left.
    const int64_t missing = plan.total() - allowed.bytes;
    input.snapshot_bytes = std::max<int64_t>(0, input.snapshot_bytes - missing);
    DS4_TRY(plan, MemoryPlan::make(config, input));
  }
  if (plan.total() > allowed.bytes && input.repack_bytes > 0) {
    const int64_t missing = plan.total() - allowed.bytes;
    input.repack_bytes = std::max<int64_t>(0, input.repack_bytes - missing);
    DS4_TRY(plan, MemoryPlan::make(config, input));
  }
  DS4_TRY_VOID(check_memory(plan, allowed, config, input));
  if (verbose) {
    print_error(fmt::format("memory {} of {} ({})\n{}", format_byte_size(plan.total()),
                            format_byte_size(allowed.bytes), allowed.source, parts(plan)));
  } else {
    print_error(fmt::format("memory {}\n", plan.summary()));
  }
  return GrantedMemory{input.snapshot_bytes, input.repack_bytes};
}

}  // namespace ds4::app
