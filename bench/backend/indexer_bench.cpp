// The indexer at decode on the cpu backend, one thread, Flash's and Nano's shapes: scores of all
// compressed rows of a ratio-4 layer and the choice of the best, at contexts of 32k, 128k and 1M;
// and the choice alone. Several layers are walked in turn, so that rows come from memory. Beside
// the time: bytes and products a second, and both as shares of what this machine can do.
//   indexer_bench [--benchmark_filter=topk]
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "backend/cpu/top_rows.h"
#include "bench/backend/synthetic_kv.h"
#include "machine/limits.h"
#include "model/config.h"

namespace ds4 {
namespace {

constexpr int64_t kBytesWalked = int64_t{96} << 20;

void decode(benchmark::State& state, const machine::Limits& limits, const ModelConfig& config,
            int64_t context, RowFormat format) {
  auto backend = make_backend(BackendKind::kCpu, {.n_threads = 1});
  const int64_t n_rows = context / 4, heads = config.index_n_heads;
  const int64_t bytes = n_rows * kv_row_bytes(format, kPackedIndexElems);
  std::vector<std::unique_ptr<SyntheticRows>> layers;
  for (int64_t walked = 0; walked < kBytesWalked; walked += bytes) {
    layers.push_back(std::make_unique<SyntheticRows>(format, kPackedIndexElems, n_rows,
                                                     static_cast<unsigned>(walked)));
  }
  Values q(heads * kPackedIndexElems, 1), weights(heads, 2);
  for (int64_t h = 0; h < heads; ++h) indexer_round_trip(q.data() + h * kPackedIndexElems);
  std::vector<int32_t> chosen(static_cast<size_t>(config.index_topk));
  const Tensor selected(reinterpret_cast<std::byte*>(chosen.data()), DType::kI32,
                        {1, config.index_topk});
  size_t layer = 0;
  for (auto _ : state) {
    KvSpan span{.n_rows = 1, .first_pos = context - 1, .kind = SpanKind::kDecode, .kv = {}};
    span.kv.index.rows = layers[layer]->rows();
    backend->ops->index_topk(selected, q.tensor({1, heads, kPackedIndexElems}),
                             weights.tensor({1, heads}), 0.01f, {&span, 1});
    layer = (layer + 1) % layers.size();
    benchmark::DoNotOptimize(chosen.data());
  }
  const auto rate = [&](double amount) {
    return benchmark::Counter(static_cast<double>(state.iterations()) * amount,
                              benchmark::Counter::kIsRate);
  };
  const double products = static_cast<double>(n_rows * heads * kPackedIndexElems);
  state.SetBytesProcessed(state.iterations() * bytes);
  state.counters["GMAC/s"] = rate(products * 1e-9);
  state.counters["of_read"] =
      rate(static_cast<double>(bytes) / (limits.memory_read.one.best * 1e9));
  state.counters["of_int8"] = rate(products / (limits.int8.one.best * 1e9));
}

enum class Order { kRandom, kAscending, kEqual };

// Selection alone, from scores that lie in memory.
void topk(benchmark::State& state, int64_t k, Order order) {
  constexpr int64_t kRows = 262144;
  Values scores(kRows, 3);
  if (order == Order::kAscending) std::sort(scores.data(), scores.data() + kRows);
  if (order == Order::kEqual) std::fill_n(scores.data(), kRows, 1.0f);
  const cpu::Kernels kernels = cpu::select_kernels();
  std::vector<uint64_t> memory(static_cast<size_t>(cpu::TopRows::capacity(k)));
  std::vector<int32_t> rows(static_cast<size_t>(k));
  for (auto _ : state) {
    cpu::TopRows best(kernels, memory.data(), k);
    for (int64_t r = 0; r < kRows; r += cpu::TopRows::kMaxAdd) {
      best.add(scores.data() + r, cpu::TopRows::kMaxAdd, r);
    }
    best.finish(rows.data());
    benchmark::DoNotOptimize(rows.data());
  }
  state.SetItemsProcessed(state.iterations() * kRows);
}

void register_all(const machine::Limits& limits) {
  const auto add = [](const std::string& name, auto run) {
    benchmark::RegisterBenchmark(name.c_str(), run)->Unit(benchmark::kMicrosecond);
  };
  for (const ModelConfig* config : {&flash_config(), &nano_config()}) {
    for (int64_t context : {32768, 131072, 1048576}) {
      for (RowFormat format : {RowFormat::kPackedIndex, RowFormat::kF32}) {
        if (format == RowFormat::kF32 && context != 131072) continue;
        add("indexer/" + config->name + "/context:" + std::to_string(context) +
                (format == RowFormat::kF32 ? "/f32" : ""),
            [=, &limits](benchmark::State& s) { decode(s, limits, *config, context, format); });
      }
    }
  }
  for (int64_t k : {128, 512, 1024}) {
    const std::string name = "topk/of:262144/k:" + std::to_string(k);
    add(name + "/random", [=](benchmark::State& s) { topk(s, k, Order::kRandom); });
    add(name + "/ascending", [=](benchmark::State& s) { topk(s, k, Order::kAscending); });
    add(name + "/equal", [=](benchmark::State& s) { topk(s, k, Order::kEqual); });
  }
}

}  // namespace
}  // namespace ds4

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const auto limits = ds4::machine::measure({.n_threads = 1});
  if (!limits) {
    std::fprintf(stderr, "indexer_bench: %s\n", limits.error().message.c_str());
    return 1;
  }
  std::fprintf(stderr, "%s, one thread: %.1f GB/s from memory, %.0f GMAC/s int8, %.0f GFMA/s f32\n",
               limits->target.c_str(), limits->memory_read.one.best, limits->int8.one.best,
               limits->f32.one.best);
  ds4::register_all(*limits);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
