#pragma once
// Makes a backend: a device, and the ops that run on it.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "ops/device.h"
#include "ops/ops.h"

namespace ds4 {

enum class BackendKind { kReference, kCpu, kCuda };

struct BackendOptions {
  int n_threads = 0;  // host threads; below 1: one per processor this process may run on
  // Activations in front of block-quantized weights are rounded to int8 (the integer dot products
  // of docs/formats/quant.md). Belongs to the official profile: hf32 takes activations in f32.
  bool integer_activations = true;
};

// One backend, ready to compute. Members are destroyed in the order that makes this safe.
struct Backend {
  BackendKind kind = BackendKind::kCpu;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Device> device;
  std::unique_ptr<Ops> ops;
};

// "reference", "cpu" or "cuda". Errors: kInvalidArgument, with the names there are.
Result<BackendKind> backend_from_name(std::string_view name);
std::string_view backend_name(BackendKind kind);

// The backends this build can make, for --version and --help.
std::vector<BackendKind> built_backends();

// Errors: kUnsupported when the backend is not in this build, with the reason.
Result<Backend> make_backend(BackendKind kind, const BackendOptions& options);

}  // namespace ds4
