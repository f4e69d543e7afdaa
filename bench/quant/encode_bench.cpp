// The encoders of ds4-quantize on one thread, on rows of an expert (4096 values): values and bytes
// of f32 input a second. Weighted and, where a format has it, without importance.
#include <benchmark/benchmark.h>

#include <cmath>
#include <random>
#include <vector>

#include "quant/codec.h"
#include "tensor/dtype.h"

namespace ds4 {
namespace {

constexpr int64_t kCols = 4096;
constexpr int64_t kRows = 8;

// Weights as FP4 checkpoints have them: 15 values and a scale for each 32.
std::vector<float> expert_rows() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const float codes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  std::vector<float> values(static_cast<size_t>(kRows * kCols));
  for (size_t i = 0; i < values.size(); ++i) {
    const float v = 2 * normal(random);
    float best = 0;
    for (const float c : codes) {
      if (std::fabs(std::fabs(v) - c) < std::fabs(std::fabs(v) - best)) best = c;
    }
    values[i] = std::copysign(best, v) * std::ldexp(1.0f, -6 + static_cast<int>(i / 32 % 3));
  }
  return values;
}

void encode(benchmark::State& state, DType type, bool weighted) {
  const std::vector<float> rows = expert_rows();
  std::mt19937 random(2);
  std::vector<float> importance(static_cast<size_t>(kCols));
  for (float& u : importance) u = std::exp(std::normal_distribution<float>(0, 1)(random));
  std::vector<std::byte> out(static_cast<size_t>(row_bytes(type, kCols)));
  int64_t row = 0;
  for (auto _ : state) {
    const auto done = encode_row(type, rows.data() + row * kCols,
                                 weighted ? importance.data() : nullptr, out.data(), kCols);
    if (!done) state.SkipWithError("not encoded");
    benchmark::DoNotOptimize(out.data());
    row = (row + 1) % kRows;
  }
  state.SetItemsProcessed(state.iterations() * kCols);
  state.SetBytesProcessed(state.iterations() * kCols * static_cast<int64_t>(sizeof(float)));
}

BENCHMARK_CAPTURE(encode, q8_0, DType::kQ8_0, false);
BENCHMARK_CAPTURE(encode, mxfp4, DType::kMXFP4, false);
BENCHMARK_CAPTURE(encode, q4_k, DType::kQ4_K, false);
BENCHMARK_CAPTURE(encode, q4_k_weighted, DType::kQ4_K, true);
BENCHMARK_CAPTURE(encode, q2_k, DType::kQ2_K, false);
BENCHMARK_CAPTURE(encode, q2_k_weighted, DType::kQ2_K, true);
BENCHMARK_CAPTURE(encode, iq2_xxs_weighted, DType::kIQ2_XXS, true);

}  // namespace
}  // namespace ds4

BENCHMARK_MAIN();
