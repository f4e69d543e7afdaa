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
// encoded ones repeated; no kernel's speed depends on the values. Q8_0_repacked is what --repack
// makes of Q8_0 when a model is loaded.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "bench/backend/taking_turns.h"

namespace ds4 {
namespace {

// Larger than a last-level cache.
constexpr int64_t kBytesWalked = int64_t{256} << 20;

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

void linear(benchmark::State& state, const machine::Limits& limits, const Matrix& m, DType type,
            bool repacked, int64_t n_rows) {
  auto backend = make_backend(BackendKind::kCpu, {.n_threads = 1});
  const int64_t bytes = m.n_out * row_bytes(type, m.n_in);
  const int64_t n_copies = std::max<int64_t>(2, kBytesWalked / bytes + 1);
  const Buffer weights = allocate(n_copies * bytes);
  fill_with_rows(weights.data(), type, n_copies * m.n_out, m.n_in);
  const int64_t x_width = m.n_groups * m.n_in;
  const Buffer x = allocate(n_rows * x_width * 4), out = allocate(n_rows * m.n_out * 4);
  fill_with_activations(x.data(), n_rows * x_width);
  const ConstTensor in(x.data(), DType::kF32, {n_rows, x_width});
  const Tensor result(out.data(), DType::kF32, {n_rows, m.n_out});
  if (repacked) {
    std::vector<ConstTensor> all;
    for (int64_t c = 0; c < n_copies; ++c) {
      all.emplace_back(weights.data() + c * bytes, type, Shape{m.n_out, m.n_in});
    }
    backend->ops->repack(all, n_copies * bytes);
  }
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
  report(state, limits, kernel, reading, bytes, n_rows * m.n_out * m.n_in);
}

void add_benchmarks(const machine::Limits& limits) {
  struct Weights {
    const char* name;
    DType type;
    bool repacked = false;
  };
  static constexpr Weights kWeights[] = {
      {"Q8_0", DType::kQ8_0},       {"Q8_0_repacked", DType::kQ8_0, true},
      {"Q4_K", DType::kQ4_K},       {"Q2_K", DType::kQ2_K},
      {"IQ2_XXS", DType::kIQ2_XXS}, {"MXFP4", DType::kMXFP4},
      {"F16", DType::kF16},         {"BF16", DType::kBF16},
  };
  for (const Matrix& m : kMatrices) {
    for (const Weights& w : kWeights) {
      for (const int64_t n_rows : {1, 8, 64, 512}) {
        const std::string name =
            std::string(m.name) + "/" + w.name + "/rows:" + std::to_string(n_rows);
        benchmark::RegisterBenchmark(name.c_str(),
                                     [&limits, &m, &w, n_rows](auto& state) {
                                       linear(state, limits, m, w.type, w.repacked, n_rows);
                                     })
            ->UseManualTime()
            ->MinTime(0.2);
      }
    }
  }
}

}  // namespace
}  // namespace ds4

int main(int argc, char** argv) {
  return ds4::run_benchmarks(argc, argv, "linear_bench", ds4::add_benchmarks);
}
