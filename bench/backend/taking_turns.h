#pragma once
// What benchmarks of weight kernels have in common: weights in memory, and a kernel that takes
// turns with a read-only loop over as many bytes, so that both meet the same machine.
#include <benchmark/benchmark.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "machine/limits.h"
#include "ops/device.h"
#include "quant/codec.h"

namespace ds4 {

// Memory in pages of 4 KiB, as a mapped file has them, whatever the system would choose.
inline Buffer allocate(int64_t bytes) {
  HostDevice device("");
  auto buffer = device.allocate(bytes + 8192);
  if (!buffer) {
    std::fprintf(stderr, "%s\n", buffer.error().message.c_str());
    std::exit(1);
  }
  const auto begin = (reinterpret_cast<uintptr_t>(buffer->data()) + 4095) / 4096 * 4096;
  (void)::madvise(reinterpret_cast<void*>(begin), static_cast<size_t>(bytes), MADV_NOHUGEPAGE);
  return std::move(*buffer);
}

// `n_rows` rows, some encoded ones repeated: no kernel's speed depends on the values.
inline void fill_with_rows(std::byte* weights, DType type, int64_t n_rows, int64_t n_in) {
  constexpr int64_t kDistinctRows = 16, kWidest = 8192;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 0.05f);
  std::vector<float> row(kWidest), importance(kWidest, 1.0f);
  const int64_t bytes = row_bytes(type, n_in);
  const int64_t n_encoded = std::min(kDistinctRows, n_rows);
  for (int64_t r = 0; r < n_encoded; ++r) {
    for (float& x : row) x = normal(random);
    (void)encode_row(type, row.data(), importance.data(), weights + r * bytes, n_in);
  }
  for (int64_t r = n_encoded; r < n_rows; ++r) {
    std::memcpy(weights + r * bytes, weights + r % n_encoded * bytes, static_cast<size_t>(bytes));
  }
}

inline void fill_with_activations(std::byte* x, int64_t n) {
  std::mt19937 random(2);
  for (int64_t i = 0; i < n; ++i) {
    const float value = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
    std::memcpy(x + 4 * i, &value, sizeof(value));
  }
}

inline double cpu_seconds() {
  timespec t = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Counters from CPU seconds of a kernel that reads `bytes` of weights for `n_macs` multiply-adds,
// and of reading as many bytes and nothing else:
//   of_read   share of the read bandwidth: time of reading over time of the kernel
//   of_int8   share of the int8 multiply-adds of one thread, measured when the program started
inline void report(benchmark::State& state, const machine::Limits& limits,
                   const std::vector<double>& kernel, const std::vector<double>& reading,
                   int64_t bytes, int64_t n_macs) {
  const double seconds = median(kernel);
  state.counters["GB/s"] = static_cast<double>(bytes) * 1e-9 / seconds;
  state.counters["of_read"] = median(reading) / seconds;
  state.counters["GMAC/s"] = static_cast<double>(n_macs) * 1e-9 / seconds;
  state.counters["of_int8"] = static_cast<double>(n_macs) * 1e-9 / seconds / limits.int8.one.best;
}

// The main() of these programs: measures the machine, says what it found, runs what `add`
// registers.
inline int run_benchmarks(int argc, char** argv, const char* program,
                          void (*add)(const machine::Limits&)) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const auto limits = machine::measure({.n_threads = 1});
  if (!limits) {
    std::fprintf(stderr, "%s: %s\n", program, limits.error().message.c_str());
    return 1;
  }
  std::fprintf(stderr,
               "one thread, %s: memory read %.1f GB/s (in large pages %.1f), cache read %.1f GB/s, "
               "int8 %.1f GMAC/s, f32 %.1f GFMA/s\n",
               limits->target.c_str(), limits->memory_read.one.best,
               limits->memory_read_large.one.best, limits->cache_read.one.best,
               limits->int8.one.best, limits->f32.one.best);
  add(*limits);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace ds4
