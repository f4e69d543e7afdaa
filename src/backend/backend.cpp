#include "backend/backend.h"

#include <fmt/format.h>

#include "backend/cpu/cpu_ops.h"
#include "backend/reference/reference_ops.h"
#include "base/log.h"

namespace ds4 {

std::string_view backend_name(BackendKind kind) {
  switch (kind) {
    case BackendKind::kReference:
      return "reference";
    case BackendKind::kCpu:
      return "cpu";
    case BackendKind::kCuda:
      return "cuda";
  }
  return "unknown";
}

Result<BackendKind> backend_from_name(std::string_view name) {
  for (BackendKind kind : {BackendKind::kReference, BackendKind::kCpu, BackendKind::kCuda}) {
    if (name == backend_name(kind)) return kind;
  }
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("backend: expected reference, cpu or cuda, found '{}'", name));
}

std::vector<BackendKind> built_backends() { return {BackendKind::kCpu, BackendKind::kReference}; }

KvStorage kv_storage(BackendKind kind, const Precision& precision) {
  KvStorage storage;
  if (kind != BackendKind::kCpu) return storage;
  if (precision.kv_fp8 && precision.kv_rope_bf16) storage.kv = RowFormat::kPackedKv;
  if (precision.index_fp4) storage.index = RowFormat::kPackedIndex;
  return storage;
}

int64_t backend_scratch_bytes(BackendKind kind, const BackendOptions& options,
                              const ModelConfig& config, int64_t max_rows) {
  const int n_threads = options.n_threads < 1 ? available_processors() : options.n_threads;
  switch (kind) {
    case BackendKind::kReference:
      return reference::scratch_bytes(config, max_rows, n_threads);
    case BackendKind::kCpu:
      return cpu::scratch_bytes(config, max_rows, n_threads,
                                {.integer_activations = options.integer_activations});
    case BackendKind::kCuda:
      break;
  }
  return 0;
}

int64_t backend_repack_bytes(BackendKind kind, const BackendOptions& options,
                             std::span<const ConstTensor> weights) {
  int64_t bytes = 0;
  for (const ConstTensor& w : weights) {
    const bool repacked =
        kind == BackendKind::kCpu &&
        cpu::is_repackable(w, {.integer_activations = options.integer_activations});
    if (repacked) bytes += w.n_rows() * w.row_stride();
  }
  return bytes;
}

Result<Backend> make_backend(BackendKind kind, const BackendOptions& options) {
  if (kind == BackendKind::kCuda) {
    return fail(ErrorCode::kUnsupported, "backend cuda: not part of this version; use cpu");
  }
  Backend backend;
  backend.kind = kind;
  backend.pool = std::make_unique<ThreadPool>(options.n_threads, options.pin_threads);
  const std::string threads = fmt::format("{} threads{}", backend.pool->n_threads(),
                                          backend.pool->is_pinned() ? ", pinned" : "");
  if (options.pin_threads && !backend.pool->is_pinned()) {
    log::warn("backend", "threads are not pinned: {} of them, and {} processors to run on",
              backend.pool->n_threads(), available_processors());
  }
  if (kind == BackendKind::kReference) {
    backend.device = std::make_unique<HostDevice>("reference, " + threads);
    backend.ops = std::make_unique<reference::ReferenceOps>(*backend.pool);
  } else {
    if (cpu::is_slow_target()) {
      log::warn("cpu",
                "this processor has no AVX2, so {} is used: answers will be several times slower",
                cpu::target_name());
    }
    backend.device =
        std::make_unique<HostDevice>(fmt::format("cpu, {}, {}", cpu::target_name(), threads));
    backend.ops = std::make_unique<cpu::CpuOps>(
        *backend.pool, cpu::CpuOptions{.integer_activations = options.integer_activations});
  }
  if (options.trace) {
    auto trace = std::make_unique<TraceOps>(std::move(backend.ops));
    backend.trace = trace.get();
    backend.ops = std::move(trace);
  }
  return backend;
}

}  // namespace ds4
