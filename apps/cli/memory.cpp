#include "memory.h"

#include <fmt/format.h>

#include "base/byte_size.h"
#include "common/memory_check.h"
#include "dump.h"
#include "engine/calibrator.h"
#include "engine/memory_plan.h"
#include "engine/snapshot.h"

namespace ds4::cli {
namespace {

MemoryPlanInput plan_input(const Model& model, const Options& options, int64_t snapshot_bytes) {
  MemoryPlanInput input = app::plan_input(model, options);
  input.ctx_tokens = options.ctx_tokens;
  input.snapshot_bytes = snapshot_bytes;
  // Modes with a walk of their own make no copies: they only read, and reading gains little.
  if (options.mode == Mode::kPerplexity) {
    input.max_sessions = score_chunk_tokens(options);
    input.repack_bytes = 0;
  } else if (options.mode == Mode::kImatrix) {
    input.statistics_bytes =
        Calibrator::bytes_needed(model.config(), model.has_mtp(), options.prefill_chunk_tokens);
    input.repack_bytes = 0;
  }
  return input;
}

}  // namespace

int64_t snapshot_bytes_wanted(const Options& options) {
  return options.snapshot_bytes.value_or(SnapshotOptions{}.bytes_max);
}

Result<app::GrantedMemory> check_memory_plan(const Model& model, const Options& options,
                                             int64_t snapshot_bytes, bool copies_exist) {
  MemoryPlanInput input = plan_input(model, options, snapshot_bytes);
  input.repack_may_shrink = !copies_exist;
  return app::check_memory_plan(model.config(), input, options.mem_limit,
                                !options.snapshot_bytes.has_value(), options.verbose);
}

Result<void> print_memory_plan(const Model& model, const Options& options) {
  const MemoryPlanInput wanted = plan_input(model, options, 0);
  const MemoryBudget allowed = app::memory_budget(wanted.weight_bytes, options.mem_limit);
  DS4_TRY(const app::FittedPlan fitted,
          app::fit_memory_plan(model.config(), wanted, allowed, /*snapshots_may_shrink=*/false));
  fmt::print("memory       {}\n", fitted.plan.summary());
  const auto fits = check_memory(fitted.plan, allowed, model.config(), fitted.input);
  fmt::print("             {}\n",
             fits
                 ? fmt::format("fits into {} ({})", format_byte_size(allowed.bytes), allowed.source)
                 : fits.error().message);
  return {};
}

}  // namespace ds4::cli
