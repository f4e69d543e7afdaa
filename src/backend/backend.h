#pragma once
// Makes a backend: a device, and the ops that run on it.
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "ops/device.h"
#include "ops/ops.h"
#include "ops/trace_ops.h"

namespace ds4 {

enum class BackendKind { kReference, kCpu, kCuda };

struct BackendOptions {
  int n_threads = 0;         // host threads; below 1: one per processor this process may run on
  bool pin_threads = false;  // each thread on a processor of its own
  // Activations in front of block-quantized weights are rounded to int8 (the integer dot products
  // of docs/formats/quant.md). Belongs to the official profile: hf32 takes activations in f32.
  bool integer_activations = true;
  bool trace = false;  // count and time every op: Backend::trace
};

// One backend, ready to compute. Members are destroyed in the order that makes this safe.
struct Backend {
  BackendKind kind = BackendKind::kCpu;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Device> device;
  std::unique_ptr<Ops> ops;
  TraceOps* trace = nullptr;  // `ops`, when BackendOptions asked for it
};

// "reference", "cpu" or "cuda". Errors: kInvalidArgument, with the names there are.
Result<BackendKind> backend_from_name(std::string_view name);
std::string_view backend_name(BackendKind kind);

// The backends this build can make, for --version and --help.
std::vector<BackendKind> built_backends();

// How such a backend keeps KV rows: packed on cpu where the profile's roundings make that lossless,
// f32 otherwise. Results are the same either way.
KvStorage kv_storage(BackendKind kind, const Precision& precision);

// Scratch memory that Ops::reserve() of such a backend takes for steps of up to `max_rows` rows.
int64_t backend_scratch_bytes(BackendKind kind, const BackendOptions& options,
                              const ModelConfig& config, int64_t max_rows);

// Bytes that Ops::repack() of such a backend would take for these weights if it had no limit.
int64_t backend_repack_bytes(BackendKind kind, const BackendOptions& options,
                             std::span<const ConstTensor> weights);

// Errors: kUnsupported when the backend is not in this build, with the reason.
Result<Backend> make_backend(BackendKind kind, const BackendOptions& options);

}  // namespace ds4
