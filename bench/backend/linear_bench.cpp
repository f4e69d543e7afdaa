// Projections on the cpu backend at the matrix shapes of Flash, one thread: how much of the memory
// bandwidth decode (1 row) uses, and of the int8 multiply rate prefill (64 and 512 rows).
//   linear_bench [--benchmark_filter='q_b/Q8_0/rows:1/']
//
// Every line says its share of two limits of this machine:
//
//   of_read   reading the same number of bytes from memory and nothing else. The two take turns,
//             kernel, reading, kernel, reading, ..., so that both meet the same machine
//   of_int8   8-bit multiply-adds with operands in the cache, measured at the start
//             (machine/limits.h)
//
// Times are medians of CPU time. Weights lie in pages of 4 KiB, as a mapped file does, and come
// from memory and not from a cache: copies of the matrix are walked in turn. Their rows are some
// encoded ones repeated; no kernel's speed depends on the values.
#include <benchmark/benchmark.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "backend/backend.h"
#include "machine/limits.h"
#include "quant/codec.h"

namespace ds4 {
namespace {

// Larger than a last-level cache.
constexpr int64_t kBytesWalked = int64_t{256} << 20;
constexpr int64_t kDistinctRows = 16;

struct Matrix {
  const char* name;
  int64_t n_out, n_in;
  int64_t n_groups = 1;  // block-diagonal: a group takes n_in values of its own
};

constexpr Matrix kMatrices[] = {
    {"q_a", 1024, 4096},         {"q_b", 32768, 1024},        {"o_a", 8 * 1024, 4096, 8},
    {"o_b", 4096, 8 * 1024},     {"expert_gate", 2048, 4096},  // the shared expert's too
    {"expert_down", 4096, 2048}, {"head", 129280 / 4, 4096},   // a quarter of it; what a row costs
                                                               // is the same
};

// Memory in pages of 4 KiB, whatever the system would choose.
Buffer allocate(int64_t bytes) {
  HostDevice device("");
  auto buffer = device.allocate(bytes + 8192);
  if (!buffer) {
    std::fprintf(stderr, "linear_bench: %s\n", buffer.error().message.c_str());
    std::exit(1);
  }
  const auto begin = (reinterpret_cast<uintptr_t>(buffer->data()) + 4095) / 4096 * 4096;
  (void)::madvise(reinterpret_cast<void*>(begin), static_cast<size_t>(bytes), MADV_NOHUGEPAGE);
  return std::move(*buffer);
}

// `n_rows` rows, kDistinctRows different ones in turn.
void fill_with_rows(std::byte* weights, DType type, int64_t n_rows, int64_t n_in) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 0.05f);
  std::vector<float> row(8192), importance(8192, 1.0f);  // the widest matrix
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

double cpu_seconds() {
  timespec t = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void linear(benchmark::State& state, const machine::Limits& limits, const Matrix& m, DType type,
            int64_t n_rows) {
  auto backend = make_backend(BackendKind::kCpu, {.n_threads = 1});
  const int64_t bytes = m.n_out * row_bytes(type, m.n_in);
  const int64_t n_copies = std::max<int64_t>(2, kBytesWalked / bytes + 1);
  const Buffer weights = allocate(n_copies * bytes);
  fill_with_rows(weights.data(), type, n_copies * m.n_out, m.n_in);
  const int64_t x_width = m.n_groups * m.n_in;
  const Buffer x = allocate(n_rows * x_width * 4), out = allocate(n_rows * m.n_out * 4);
  std::mt19937 random(2);
  for (int64_t k = 0; k < n_rows * x_width; ++k) {
    const float value = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
    std::memcpy(x.data() + 4 * k, &value, sizeof(value));
  }
  const ConstTensor in(x.data(), DType::kF32, {n_rows, x_width});
  const Tensor result(out.data(), DType::kF32, {n_rows, m.n_out});
  int64_t i = 0;
  const auto next = [&] {
    const std::byte* data = weights.data() + i * bytes;
    i = (i + 1) % n_copies;
    return data;
  };
  std::vector<double> kernel, reading;
  for (auto _ : state) {
    const double start = cpu_seconds();
    const ConstTensor w(next(), type, {m.n_out, m.n_in});
    if (m.n_groups > 1) {
      backend->ops->grouped_linear(result, in, w, m.n_groups);
    } else {
      backend->ops->linear(result, in, w);
    }
    const double middle = cpu_seconds();
    benchmark::DoNotOptimize(machine::read_bytes(next(), bytes));
    reading.push_back(cpu_seconds() - middle);
    kernel.push_back(middle - start);
    state.SetIterationTime(kernel.back());
  }
  const double seconds = median(kernel);
  const auto n_macs = static_cast<double>(n_rows * m.n_out * m.n_in);
  state.counters["GB/s"] = static_cast<double>(bytes) * 1e-9 / seconds;
  state.counters["of_read"] = median(reading) / seconds;
  state.counters["GMAC/s"] = n_macs * 1e-9 / seconds;
  state.counters["of_int8"] = n_macs * 1e-9 / seconds / limits.int8.one.best;
}

void add_benchmarks(const machine::Limits& limits) {
  for (const Matrix& m : kMatrices) {
    for (const DType type : {DType::kQ8_0, DType::kQ4_K, DType::kQ2_K, DType::kIQ2_XXS,
                             DType::kMXFP4, DType::kF16, DType::kBF16}) {
      for (const int64_t n_rows : {1, 8, 64, 512}) {
        const std::string name = std::string(m.name) + "/" + std::string(dtype_name(type)) +
                                 "/rows:" + std::to_string(n_rows);
        benchmark::RegisterBenchmark(
            name.c_str(),
            [&limits, &m, type, n_rows](auto& state) { linear(state, limits, m, type, n_rows); })
            ->UseManualTime()
            ->MinTime(0.2);
      }
    }
  }
}

}  // namespace
}  // namespace ds4

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const auto limits = ds4::machine::measure({.n_threads = 1});
  if (!limits) {
    std::fprintf(stderr, "linear_bench: %s\n", limits.error().message.c_str());
    return 1;
  }
  std::fprintf(stderr,
               "one thread, %s: memory read %.1f GB/s (in large pages %.1f), cache read %.1f GB/s, "
               "int8 %.1f GMAC/s, f32 %.1f GFMA/s\n",
               limits->target.c_str(), limits->memory_read.one.best,
               limits->memory_read_large.one.best, limits->cache_read.one.best,
               limits->int8.one.best, limits->f32.one.best);
  ds4::add_benchmarks(*limits);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
