#include "memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"
#include "common/memory_check.h"
#include "dump.h"
#include "engine/calibrator.h"
#include "engine/memory_plan.h"
#include "engine/repack.h"
#include "engine/snapshot.h"

namespace ds4::cli {
namespace {

// The two modes with a walk of their own make no copies: they only read prompts, where copies gain
// nothing.
int64_t repack_bytes_wanted(const Model& model, const Options& options) {
  if (options.mode == Mode::kImatrix || options.mode == Mode::kPerplexity) return 0;
  return std::min(
      options.repack_bytes_max,
      repackable_bytes(model.weights(), options.backend,
                       {.integer_activations = options.precision != Precision::hf32()}));
}

MemoryPlanInput plan_input(const Model& model, const Options& options, int64_t snapshot_bytes) {
  return {.weight_bytes = model.file().file_bytes(),
          .backend = options.backend,
          .backend_options = {.n_threads = options.n_threads,
                              .integer_activations = options.precision != Precision::hf32()},
          .precision = options.precision,
          .prefill_chunk_tokens = options.prefill_chunk_tokens,
          .max_sessions = options.mode == Mode::kPerplexity ? score_chunk_tokens(options) : 1,
          .n_sessions = 1,
          .ctx_tokens = options.ctx_tokens,
          .snapshot_bytes = snapshot_bytes,
          .repack_bytes = repack_bytes_wanted(model, options),
          .statistics_bytes = options.mode == Mode::kImatrix
                                  ? Calibrator::bytes_needed(model.config(), model.has_mtp(),
                                                             options.prefill_chunk_tokens)
                                  : 0};
}

app::MemoryLimit limit_of(const Options& options) {
  return {options.mem_limit, options.mem_limit_text};
}

}  // namespace

int64_t snapshot_bytes_wanted(const Options& options) {
  return options.snapshot_bytes.value_or(SnapshotOptions{}.bytes_max);
}

Result<app::GrantedMemory> check_memory_plan(const Model& model, const Options& options,
                                             int64_t snapshot_bytes, bool copies_exist) {
  MemoryPlanInput input = plan_input(model, options, snapshot_bytes);
  input.repack_may_shrink = !copies_exist;
  return app::check_memory_plan(model.config(), input, limit_of(options),
                                !options.snapshot_bytes.has_value(), options.verbose);
}

Result<void> print_memory_plan(const Model& model, const Options& options) {
  const MemoryPlanInput wanted = plan_input(model, options, 0);
  const MemoryBudget allowed = app::memory_budget(wanted.weight_bytes, limit_of(options));
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
