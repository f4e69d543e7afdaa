#include "memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"
#include "base/system_memory.h"
#include "dump.h"
#include "engine/calibrator.h"
#include "engine/memory_plan.h"
#include "engine/snapshot.h"
#include "terminal.h"

namespace ds4::cli {
namespace {

MemoryPlanInput plan_input(const Model& model, const Options& options, int64_t snapshot_bytes) {
  return {.weight_bytes = model.file().file_bytes(),
          .backend = options.backend,
          .backend_options = {.n_threads = options.n_threads,
                              .integer_activations = options.precision != Precision::hf32()},
          .prefill_chunk_tokens = options.prefill_chunk_tokens,
          .max_sessions = options.mode == Mode::kPerplexity ? score_chunk_tokens(options) : 1,
          .n_sessions = 1,
          .ctx_tokens = options.ctx_tokens,
          .snapshot_bytes = snapshot_bytes,
          .statistics_bytes = options.mode == Mode::kImatrix
                                  ? Calibrator::bytes_needed(model.config(), model.has_mtp(),
                                                             options.prefill_chunk_tokens)
                                  : 0};
}

// What the system leaves us or the user allows, whichever is less.
MemoryBudget budget(const Model& model, const Options& options) {
  SystemMemory memory = system_memory(model.file().file_bytes(), process_limits());
  if (options.mem_limit && *options.mem_limit < memory.available_bytes) {
    return {*options.mem_limit, "limit --mem-limit " + options.mem_limit_text};
  }
  return {memory.available_bytes, std::move(memory.source)};
}

std::string parts(const MemoryPlan& plan) {
  std::string text;
  const auto line = [&](const char* name, int64_t bytes, const std::string& note) {
    if (bytes > 0) text += fmt::format("  {:<12}{:>12}  {}\n", name, format_byte_size(bytes), note);
  };
  line("weights", plan.weights, "mapped from the file");
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

int64_t snapshot_bytes_wanted(const Options& options) {
  return options.snapshot_bytes.value_or(SnapshotOptions{}.bytes_max);
}

Result<int64_t> check_memory_plan(const Model& model, const Options& options,
                                  int64_t snapshot_bytes) {
  MemoryPlanInput input = plan_input(model, options, snapshot_bytes);
  DS4_TRY(MemoryPlan plan, MemoryPlan::make(model.config(), input));
  const MemoryBudget allowed = budget(model, options);
  if (plan.total() > allowed.bytes && !options.snapshot_bytes) {
    // Snapshots save time and nothing else: they take what is left.
    const int64_t missing = plan.total() - allowed.bytes;
    input.snapshot_bytes = std::max<int64_t>(0, input.snapshot_bytes - missing);
    DS4_TRY(plan, MemoryPlan::make(model.config(), input));
  }
  DS4_TRY_VOID(check_memory(plan, allowed, model.config(), input));
  if (options.verbose) {
    print_error(fmt::format("memory {} of {} ({})\n{}", format_byte_size(plan.total()),
                            format_byte_size(allowed.bytes), allowed.source, parts(plan)));
  } else {
    print_error(fmt::format("memory {}\n", plan.summary()));
  }
  return input.snapshot_bytes;
}

Result<void> print_memory_plan(const Model& model, const Options& options) {
  const MemoryPlanInput input = plan_input(model, options, 0);
  DS4_TRY(const MemoryPlan plan, MemoryPlan::make(model.config(), input));
  const MemoryBudget allowed = budget(model, options);
  fmt::print("memory       {}\n", plan.summary());
  const auto fits = check_memory(plan, allowed, model.config(), input);
  fmt::print("             {}\n",
             fits
                 ? fmt::format("fits into {} ({})", format_byte_size(allowed.bytes), allowed.source)
                 : fits.error().message);
  return {};
}

}  // namespace ds4::cli
