// Attention at decode on the cpu backend, one thread, Flash's and Nano's shapes: the raw window,
// and beside it the rows that the indexer chose (ratio 4) or all of them (ratio 128), at contexts
// of 32k, 128k and 1M; and a prefill chunk. Several layers are walked in turn, so that compressed
// rows come from memory. Beside the time: bytes and products a second, and both as shares of what
// this machine can do.
//   attention_bench [--benchmark_filter=Nano]
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "bench/backend/synthetic_kv.h"
#include "machine/limits.h"
#include "model/config.h"

namespace ds4 {
namespace {

constexpr int64_t kBytesWalked = int64_t{96} << 20;

struct Layer {
  SyntheticRows raw;
  SyntheticRows compressed;
};

struct Case {
  const ModelConfig* config;
  int ratio;
  int64_t context;
  int64_t n_queries;
  RowFormat format;
};

// Rows that the queries of a step see, all told.
int64_t rows_seen(const Case& c, int64_t first_pos) {
  int64_t n = 0;
  for (int64_t pos = first_pos; pos < first_pos + c.n_queries; ++pos) {
    n += std::min(c.config->window, pos + 1);
    if (c.ratio == 4) n += std::min(c.config->index_topk, (pos + 1) / 4);
    if (c.ratio == 128) n += (pos + 1) / 128;
  }
  return n;
}

void attention(benchmark::State& state, const machine::Limits& limits, const Case& c) {
  auto backend = make_backend(BackendKind::kCpu, {.n_threads = 1});
  const int64_t heads = c.config->n_heads, dim = c.config->head_dim, topk = c.config->index_topk;
  const int64_t first_pos = c.context - c.n_queries;
  const int64_t n_rows = c.ratio == 0 ? 1 : c.context / c.ratio;
  const int64_t layer_bytes = (n_rows + 256) * kv_row_bytes(c.format, dim);
  std::vector<std::unique_ptr<Layer>> layers;
  for (int64_t walked = 0; walked < kBytesWalked; walked += layer_bytes) {
    const auto seed = static_cast<unsigned>(walked);
    layers.push_back(std::make_unique<Layer>(SyntheticRows(c.format, dim, 256, seed),
                                             SyntheticRows(c.format, dim, n_rows, seed + 1)));
  }
  Values q(c.n_queries * heads * dim, 1), kv(c.n_queries * dim, 2), sinks(heads, 3);
  Values out(c.n_queries * heads * dim, 4);
  std::vector<int32_t> chosen(static_cast<size_t>(c.n_queries * topk), -1);
  for (int64_t n = 0; n < c.n_queries; ++n) {  // spread over all visible rows
    const int64_t visible = (first_pos + n + 1) / 4, some = std::min(topk, visible);
    for (int64_t i = 0; i < some; ++i) {
      chosen[static_cast<size_t>(n * topk + i)] = static_cast<int32_t>(visible * i / some);
    }
  }
  const Tensor selected(reinterpret_cast<std::byte*>(chosen.data()), DType::kI32,
                        {c.n_queries, topk});
  size_t layer = 0;
  for (auto _ : state) {
    KvSpan span{.n_rows = c.n_queries, .first_pos = first_pos, .kv = {}};
    span.kv.ring = layers[layer]->raw.ring(256, dim);
    span.kv.attn.rows = layers[layer]->compressed.rows();
    backend->ops->attention(out.tensor({c.n_queries, heads, dim}),
                            q.tensor({c.n_queries, heads, dim}), kv.tensor({c.n_queries, dim}),
                            sinks.tensor({heads}),
                            c.ratio == 4 ? ConstTensor(selected) : ConstTensor(), {&span, 1},
                            {.window = c.config->window, .ratio = c.ratio});
    layer = (layer + 1) % layers.size();
    benchmark::DoNotOptimize(out.data());
  }
  const auto rate = [&](double amount) {
    return benchmark::Counter(static_cast<double>(state.iterations()) * amount,
                              benchmark::Counter::kIsRate);
  };
  const double seen = static_cast<double>(rows_seen(c, first_pos));
  const double bytes = seen * static_cast<double>(kv_row_bytes(c.format, dim));
  const double products = seen * static_cast<double>(2 * heads * dim);
  state.counters["rows"] = seen;
  state.counters["GB/s"] = rate(bytes * 1e-9);
  state.counters["GMAC/s"] = rate(products * 1e-9);
  state.counters["of_read"] = rate(bytes / (limits.memory_read.one.best * 1e9));
  state.counters["of_f32"] = rate(products / (limits.f32.one.best * 1e9));
}

void add_case(const machine::Limits& limits, const Case& c) {
  const std::string name = "attention/" + c.config->name + "/ratio:" + std::to_string(c.ratio) +
                           "/context:" + std::to_string(c.context) +
                           (c.n_queries > 1 ? "/rows:" + std::to_string(c.n_queries) : "") +
                           (c.format == RowFormat::kF32 ? "/f32" : "");
  benchmark::RegisterBenchmark(name.c_str(), [=, &limits](benchmark::State& s) {
    attention(s, limits, c);
  })->Unit(benchmark::kMicrosecond);
}

void register_all(const machine::Limits& limits) {
  const auto add = [&](const Case& c) { add_case(limits, c); };
  for (const ModelConfig* config : {&flash_config(), &nano_config()}) {
    for (RowFormat format : {RowFormat::kPackedKv, RowFormat::kF32}) {
      add({config, 0, 32768, 1, format});
      add({config, 4, 32768, 1, format});
    }
    for (int64_t context : {131072, 1048576}) add({config, 4, context, 1, RowFormat::kPackedKv});
    for (int64_t context : {32768, 131072, 1048576}) {
      add({config, 128, context, 1, RowFormat::kPackedKv});
    }
  }
  for (int ratio : {0, 4, 128}) add({&nano_config(), ratio, 512, 512, RowFormat::kPackedKv});
  add({&flash_config(), 4, 512, 64, RowFormat::kPackedKv});
}

}  // namespace
}  // namespace ds4

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const auto limits = ds4::machine::measure({.n_threads = 1});
  if (!limits) {
    std::fprintf(stderr, "attention_bench: %s\n", limits.error().message.c_str());
    return 1;
  }
  std::fprintf(stderr, "%s, one thread: %.1f GB/s from memory, %.0f GMAC/s int8, %.0f GFMA/s f32\n",
               limits->target.c_str(), limits->memory_read.one.best, limits->int8.one.best,
               limits->f32.one.best);
  ds4::register_all(*limits);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
