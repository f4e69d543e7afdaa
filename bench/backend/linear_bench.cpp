// Projections on the cpu backend at the matrix shapes of Flash, one thread: how much of the memory
// bandwidth decode (1 row) uses, and the multiply rate of prefill (64 rows). Weights are random
// bytes in valid blocks; several copies are walked in turn so that they come from memory, not from
// a cache.
//   linear_bench [--benchmark_filter=Q8_0]
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "backend/backend.h"
#include "quant/codec.h"

namespace ds4 {
namespace {

constexpr int64_t kOut = 2048, kIn = 4096;  // an expert's gate; the shared expert's too
constexpr int64_t kBytesWalked = int64_t{96} << 20;

std::vector<std::byte> random_weights(DType type) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 0.05f);
  std::vector<float> row(kIn), importance(kIn, 1.0f);
  const int64_t bytes = row_bytes(type, kIn);
  std::vector<std::byte> weights(static_cast<size_t>(kOut * bytes));
  for (float& x : row) x = normal(random);
  for (int64_t r = 0; r < kOut; ++r) {
    std::swap(row[static_cast<size_t>(r)], row[static_cast<size_t>(random() % kIn)]);
    (void)encode_row(type, row.data(), importance.data(), weights.data() + r * bytes, kIn);
  }
  return weights;
}

void linear(benchmark::State& state, DType type, int64_t n_rows) {
  auto backend = make_backend(BackendKind::kCpu, {.n_threads = 1});
  const std::vector<std::byte> one = random_weights(type);
  const size_t n_copies = static_cast<size_t>(kBytesWalked) / one.size() + 1;
  std::vector<std::vector<std::byte>> copies(n_copies, one);
  std::vector<float> x(static_cast<size_t>(n_rows * kIn)), out(static_cast<size_t>(n_rows * kOut));
  std::mt19937 random(2);
  for (float& v : x) v = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
  const ConstTensor in(reinterpret_cast<const std::byte*>(x.data()), DType::kF32, {n_rows, kIn});
  const Tensor result(reinterpret_cast<std::byte*>(out.data()), DType::kF32, {n_rows, kOut});
  size_t i = 0;
  for (auto _ : state) {
    backend->ops->linear(result, in, ConstTensor(copies[i].data(), type, {kOut, kIn}));
    i = (i + 1) % n_copies;
    benchmark::DoNotOptimize(out.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(one.size()));
  state.counters["GMAC/s"] =
      benchmark::Counter(static_cast<double>(state.iterations() * n_rows * kOut * kIn) * 1e-9,
                         benchmark::Counter::kIsRate);
}

// What a read-only loop over the same bytes reaches: the ceiling of the 1-row figures.
void read_only(benchmark::State& state) {
  std::vector<uint64_t> bytes(static_cast<size_t>(kBytesWalked) / 8, 3);
  for (auto _ : state) {
    uint64_t sum[8] = {};
    for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
      for (size_t l = 0; l < 8; ++l) sum[l] += bytes[i + l];
    }
    benchmark::DoNotOptimize(sum);
  }
  state.SetBytesProcessed(state.iterations() * kBytesWalked);
}

}  // namespace
}  // namespace ds4

int main(int argc, char** argv) {
  benchmark::RegisterBenchmark("read_only", ds4::read_only);
  for (ds4::DType type :
       {ds4::DType::kQ8_0, ds4::DType::kMXFP4, ds4::DType::kQ4_K, ds4::DType::kQ2_K,
        ds4::DType::kIQ2_XXS, ds4::DType::kF16, ds4::DType::kBF16}) {
    for (int64_t n_rows : {1, 64}) {
      const std::string name =
          "linear/" + std::string(ds4::dtype_name(type)) + "/rows:" + std::to_string(n_rows);
      benchmark::RegisterBenchmark(
          name.c_str(), [=](benchmark::State& state) { ds4::linear(state, type, n_rows); });
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
