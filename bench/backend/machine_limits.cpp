#include "bench/backend/machine_limits.h"

#include <cstdio>
#include <cstdlib>

#include "machine/limits.h"

namespace ds4 {
namespace {

MachineLimits measure() {
  const auto found = machine::measure({.n_threads = 1});
  if (!found) {
    std::fprintf(stderr, "machine limits: %s\n", found.error().message.c_str());
    std::exit(1);
  }
  return {.read_bytes = found->memory_read.one.best * 1e9,
          .int8_products = found->int8.one.best * 1e9,
          .f32_products = found->f32.one.best * 1e9};
}

}  // namespace

const MachineLimits& machine_limits() {
  static const MachineLimits limits = measure();
  return limits;
}

}  // namespace ds4
