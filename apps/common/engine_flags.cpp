#include "common/engine_flags.h"

#include <algorithm>

#include "base/byte_size.h"
#include "engine/repack.h"

namespace ds4::app {

void add_engine_flags(CLI::App& app, EngineFlags& flags, EngineFlagText& text, const char* group) {
  app.add_option("--backend", text.backend, "cpu, or reference (the slow oracle)")
      ->capture_default_str()
      ->group(group);
  app.add_flag("--cpu", text.cpu, "same as --backend cpu")->group(group);
  app.add_option("-t,--threads", flags.n_threads, "threads; 0: one per processor")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str()
      ->group(group);
  app.add_flag("--pin-threads", flags.pin_threads, "keep each thread to a processor of its own")
      ->group(group);
  app.add_option("--profile", text.profile,
                 "official: the roundings the model was trained with; hf32: none of them")
      ->capture_default_str()
      ->group(group);
  app.add_option("--prefill-chunk", flags.prefill_chunk_tokens, "prompt tokens per step")
      ->check(CLI::Range(int64_t{1}, int64_t{65536}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--repack", text.repack,
                 "memory for copies of weights in a form that is read faster; 0: none")
      ->type_name("SIZE")
      ->capture_default_str()
      ->group(group);
  app.add_option("--mem-limit", text.mem_limit,
                 "refuse to start when more memory would be needed, e.g. 8G or 512M")
      ->type_name("SIZE")
      ->group(group);
  app.add_flag("-v,--verbose", flags.verbose, "say what is loaded, and the memory it takes")
      ->group(group);
}

Result<void> read_engine_flags(EngineFlags& flags, const EngineFlagText& text,
                               const CLI::App& app) {
  DS4_TRY(flags.backend, backend_from_name(text.cpu ? "cpu" : text.backend));
  DS4_TRY(flags.precision, precision_from_name(text.profile));
  const auto repack = parse_size_or_none(text.repack);
  if (!repack) return fail_within("--repack", repack.error());
  flags.repack_bytes_max = *repack;
  if (app.count("--mem-limit") > 0) {
    const auto size = parse_byte_size(text.mem_limit);
    if (!size) return fail_within("--mem-limit", size.error());
    flags.mem_limit = {*size, text.mem_limit};
  }
  return {};
}

MemoryPlanInput plan_input(const Model& model, const EngineFlags& flags) {
  const BackendOptions backend_options = {
      .n_threads = flags.n_threads, .integer_activations = flags.precision != Precision::hf32()};
  const int64_t repackable = repackable_bytes(model.weights(), flags.backend, backend_options);
  return {.weight_bytes = model.file().file_bytes(),
          .backend = flags.backend,
          .backend_options = backend_options,
          .precision = flags.precision,
          .prefill_chunk_tokens = flags.prefill_chunk_tokens,
          .repack_bytes = std::min(flags.repack_bytes_max, repackable)};
}

EngineOptions engine_options(const EngineFlags& flags, const GrantedMemory& granted) {
  EngineOptions options;
  options.backend = flags.backend;
  options.n_threads = flags.n_threads;
  options.pin_threads = flags.pin_threads;
  options.precision = flags.precision;
  options.prefill_chunk_tokens = flags.prefill_chunk_tokens;
  options.snapshots.bytes_max = granted.snapshot_bytes;
  options.repack_bytes_max = granted.repack_bytes;
  return options;
}

}  // namespace ds4::app
