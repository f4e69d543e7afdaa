// Routed experts on the cpu backend at the shapes of Flash, one thread: gate and up together, and
// down, for 1 to 512 rows that each choose 6 of 64 experts at random (a layer of Flash has 256;
// here it is enough that they do not fit into a cache). Rows that choose the same expert share its
// weights, so the bytes counted are those of all experts that were chosen, each once.
//   experts_bench [--benchmark_filter='gate_up/IQ2_XXS/rows:1/']
//
// Kernel and read-only loop take turns; counters as in bench/backend/taking_turns.h.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "bench/backend/taking_turns.h"

namespace ds4 {
namespace {

constexpr int64_t kHidden = 4096, kMid = 2048, kExperts = 64, kChosen = 6;
constexpr float kLimit = 10.0f;

// Of one step; ascending in a row, as routers leave them.
struct Choices {
  std::vector<int32_t> ids;
  int64_t n_different = 0;
};

Choices choose(int64_t n_rows, uint32_t seed) {
  std::mt19937 random(seed);
  Choices choices;
  std::set<int32_t> all;
  for (int64_t r = 0; r < n_rows; ++r) {
    std::set<int32_t> row;
    while (std::ssize(row) < kChosen) row.insert(static_cast<int32_t>(random() % kExperts));
    choices.ids.insert(choices.ids.end(), row.begin(), row.end());
    all.insert(row.begin(), row.end());
  }
  choices.n_different = std::ssize(all);
  return choices;
}

// `gate_up` or down: weights of `n_matrices` stacks of [kExperts, n_out, n_in].
void experts(benchmark::State& state, const machine::Limits& limits, bool gate_up, DType type,
             int64_t n_rows) {
  const int64_t n_out = gate_up ? kMid : kHidden, n_in = gate_up ? kHidden : kMid;
  const int64_t n_matrices = gate_up ? 2 : 1;
  const int64_t matrix_bytes = n_out * row_bytes(type, n_in);
  const int64_t stack_bytes = kExperts * matrix_bytes;
  auto backend = make_backend(BackendKind::kCpu, {.n_threads = 1});
  const Buffer weights = allocate(n_matrices * stack_bytes);
  fill_with_rows(weights.data(), type, n_matrices * kExperts * n_out, n_in);
  const Buffer mid = allocate(n_rows * kChosen * kMid * 4), x = allocate(n_rows * kHidden * 4);
  fill_with_activations(mid.data(), n_rows * kChosen * kMid);
  fill_with_activations(x.data(), n_rows * kHidden);
  const std::vector<float> share(static_cast<size_t>(n_rows * kChosen), 1.0f / kChosen);
  const ConstTensor shares(reinterpret_cast<const std::byte*>(share.data()), DType::kF32,
                           {n_rows, kChosen});
  const Tensor mids(mid.data(), DType::kF32, {n_rows, kChosen, kMid});
  const Tensor rows(x.data(), DType::kF32, {n_rows, kHidden});
  const auto stack = [&](int64_t i) {
    return ConstTensor(weights.data() + i * stack_bytes, type, {kExperts, n_out, n_in});
  };

  std::vector<double> kernel, reading;
  int64_t n_different = 0;
  uint32_t seed = 0;
  for (auto _ : state) {
    const Choices choices = choose(n_rows, ++seed);
    n_different += choices.n_different;
    const ConstTensor ids(reinterpret_cast<const std::byte*>(choices.ids.data()), DType::kI32,
                          {n_rows, kChosen});
    const double start = cpu_seconds();
    if (gate_up) {
      backend->ops->experts_gate_up(mids, rows, ids, shares, stack(0), stack(1), kLimit);
    } else {
      backend->ops->experts_down(rows, mids, ids, stack(0));
    }
    const double middle = cpu_seconds();
    // As many bytes in pieces of an expert, elsewhere.
    for (int64_t i = 0; i < choices.n_different * n_matrices; ++i) {
      const int64_t matrix = (seed * kChosen + i) * 17 % (kExperts * n_matrices);
      benchmark::DoNotOptimize(
          machine::read_bytes(weights.data() + matrix * matrix_bytes, matrix_bytes));
    }
    reading.push_back(cpu_seconds() - middle);
    kernel.push_back(middle - start);
    state.SetIterationTime(kernel.back());
  }
  const int64_t bytes = n_different * n_matrices * matrix_bytes / std::ssize(kernel);
  report(state, limits, kernel, reading, bytes, n_rows * kChosen * n_matrices * n_out * n_in);
}

void add_benchmarks(const machine::Limits& limits) {
  for (const bool gate_up : {true, false}) {
    for (const DType type :
         {DType::kIQ2_XXS, DType::kQ2_K, DType::kQ4_K, DType::kMXFP4, DType::kQ8_0}) {
      for (const int64_t n_rows : {1, 8, 64, 512}) {
        const std::string name = std::string(gate_up ? "gate_up/" : "down/") +
                                 std::string(dtype_name(type)) + "/rows:" + std::to_string(n_rows);
        benchmark::RegisterBenchmark(name.c_str(),
                                     [&limits, gate_up, type, n_rows](auto& state) {
                                       experts(state, limits, gate_up, type, n_rows);
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
  return ds4::run_benchmarks(argc, argv, "experts_bench", ds4::add_benchmarks);
}
