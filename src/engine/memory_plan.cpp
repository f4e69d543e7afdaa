#include "engine/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"
#include "engine/kv_cache.h"
#include "engine/workspace.h"
#include "tokenizer/token.h"

namespace ds4 {
namespace {

// Code, libraries and start-up of a program, and what vocabulary and tokenizer take for each token
// with its share of the merges. Measured; see docs/architecture.md, "Memory".
constexpr int64_t kProgramBytes = int64_t{20} << 20;
constexpr int64_t kVocabTokenBytes = 400;
constexpr int64_t kThreadBytes = int64_t{256} << 10;  // stack pages that a worker touches

// Page tables take 8 bytes for each page of 4096; the rest is a reserve.
constexpr int64_t kHeadroomBytes = int64_t{32} << 20;

}  // namespace

Result<MemoryPlan> MemoryPlan::make(const ModelConfig& config, const MemoryPlanInput& input) {
  if (input.ctx_tokens < 1 || input.ctx_tokens > config.max_position) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("context: expected 1 .. {} tokens, found {}", config.max_position,
                            input.ctx_tokens));
  }
  const int64_t max_rows = input.prefill_chunk_tokens + input.max_sessions;
  const int n_threads = input.backend_options.n_threads < 1 ? available_processors()
                                                            : input.backend_options.n_threads;
  MemoryPlan plan;
  plan.n_sessions = input.n_sessions;
  plan.ctx_tokens = input.ctx_tokens;
  plan.weights = input.weight_bytes;
  plan.repacked = input.repack_bytes;
  plan.kv_cache =
      input.n_sessions * KvCache::bytes_needed(config, config.compress_ratios,
                                               kv_storage(input.backend, input.precision),
                                               input.ctx_tokens);
  plan.snapshots = input.snapshot_bytes;
  plan.workspace = Workspace::bytes_needed(config, max_rows, input.max_sessions);
  plan.scratch = backend_scratch_bytes(input.backend, input.backend_options, config, max_rows);
  plan.sessions = input.n_sessions * (input.ctx_tokens * static_cast<int64_t>(sizeof(Token)) +
                                      config.vocab_size * static_cast<int64_t>(sizeof(float)));
  plan.statistics = input.statistics_bytes;
  plan.program = kProgramBytes + config.vocab_size * kVocabTokenBytes + n_threads * kThreadBytes;
  plan.headroom = kHeadroomBytes + plan.total() / 512;
  return plan;
}

std::string MemoryPlan::summary() const {
  std::string text = format_byte_size(total()) + ": weights " + format_byte_size(weights);
  if (repacked > 0) text += ", repacked " + format_byte_size(repacked);
  text += fmt::format(", KV cache {} at {} tokens", format_byte_size(kv_cache), ctx_tokens);
  if (n_sessions > 1) text += fmt::format(" x {} sessions", n_sessions);
  if (snapshots > 0) text += ", snapshots up to " + format_byte_size(snapshots);
  const auto add = [&](const char* name, int64_t bytes) {
    text += fmt::format(", {} {}", name, format_byte_size(bytes));
  };
  add("workspace", workspace + scratch);
  if (statistics > 0) add("statistics", statistics);
  add("program", program + sessions);
  add("headroom", headroom);
  return text;
}

int64_t largest_context(int64_t budget_bytes, const ModelConfig& config,
                        const MemoryPlanInput& input) {
  const auto fits = [&](int64_t ctx_tokens) {
    MemoryPlanInput smaller = input;
    smaller.ctx_tokens = ctx_tokens;
    const auto plan = MemoryPlan::make(config, smaller);
    return plan && plan->total() <= budget_bytes;
  };
  int64_t low = 0, high = config.max_position + 1;  // low fits (or is 0), high does not
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low < 1024 ? low : low / 1024 * 1024;
}

Result<void> check_memory(const MemoryPlan& plan, const MemoryBudget& budget,
                          const ModelConfig& config, const MemoryPlanInput& input) {
  if (plan.total() <= budget.bytes) return {};
  const int64_t ctx = largest_context(budget.bytes, config, input);
  const std::string advice =
      ctx > 0 ? fmt::format("the largest context that fits is {} tokens (-c {})", ctx, ctx)
              : "no context fits: a smaller --prefill-chunk or a smaller file of this model may";
  return fail(ErrorCode::kOutOfMemory,
              fmt::format("memory: expected at most {} ({}), the plan needs {}; {}",
                          format_byte_size(budget.bytes), budget.source, plan.summary(), advice));
}

}  // namespace ds4
