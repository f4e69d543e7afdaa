#include "engine/kv_cache.h"

#include <fmt/format.h>

#include <cmath>

namespace ds4 {
namespace {

constexpr int64_t kAlign = 64;

int64_t aligned(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

// What one compressed series (attention or indexer) of a layer needs.
struct SeriesShape {
  int64_t row_bytes = 0;
  int64_t n_pages = 0;
  int64_t frontier_rows = 0;
  int64_t frontier_cols = 0;

  int64_t page_bytes() const { return aligned(kPageRows * row_bytes); }
  int64_t frontier_bytes() const { return aligned(frontier_rows * frontier_cols * 4); }
  int64_t bytes() const { return n_pages * page_bytes() + 2 * frontier_bytes(); }
};

SeriesShape series_shape(int64_t head_dim, int ratio, int64_t capacity) {
  SeriesShape shape;
  shape.row_bytes = head_dim * 4;
  shape.n_pages = (capacity / ratio + kPageRows - 1) / kPageRows;
  shape.frontier_rows = ratio == 4 ? 8 : ratio;
  shape.frontier_cols = ratio == 4 ? 2 * head_dim : head_dim;
  return shape;
}

// Hands out aligned pieces of one buffer.
class Carver {
 public:
  explicit Carver(std::byte* base) : next_(base) {}
  std::byte* take(int64_t bytes) {
    std::byte* piece = next_;
    next_ += aligned(bytes);
    return piece;
  }

 private:
  std::byte* next_;
};

CompressedKv carve_series(Carver& memory, const SeriesShape& shape, std::byte**& next_page) {
  CompressedKv series;
  series.rows.pages = next_page;
  series.rows.row_bytes = shape.row_bytes;
  for (int64_t i = 0; i < shape.n_pages; ++i) *next_page++ = memory.take(shape.page_bytes());
  const Shape frontier{shape.frontier_rows, shape.frontier_cols};
  series.frontier_kv = Tensor(memory.take(shape.frontier_bytes()), DType::kF32, frontier);
  series.frontier_score = Tensor(memory.take(shape.frontier_bytes()), DType::kF32, frontier);
  return series;
}

void reset_frontier(Device& device, const CompressedKv& series) {
  if (series.frontier_kv.empty()) return;
  const size_t n = static_cast<size_t>(series.frontier_kv.shape().n_elements());
  const std::vector<float> zeros(n, 0.0f), minus_infinity(n, -INFINITY);
  device.upload(series.frontier_kv.data(), std::as_bytes(std::span(zeros)));
  device.upload(series.frontier_score.data(), std::as_bytes(std::span(minus_infinity)));
}

}  // namespace

int64_t KvCache::bytes_needed(const ModelConfig& config, std::span<const int> ratios,
                              int64_t capacity) {
  int64_t bytes = 0;
  for (int ratio : ratios) {
    bytes += aligned(kRingRows * config.head_dim * 4);
    if (ratio != 0) bytes += series_shape(config.head_dim, ratio, capacity).bytes();
    if (ratio == 4) bytes += series_shape(config.index_head_dim, ratio, capacity).bytes();
  }
  return bytes;
}

Result<KvCache> KvCache::create(Device& device, const ModelConfig& config,
                                std::span<const int> ratios, int64_t capacity) {
  KvCache cache;
  cache.device_ = &device;
  cache.capacity_ = capacity;
  const int64_t bytes = bytes_needed(config, ratios, capacity);
  auto memory = device.allocate(bytes);
  if (!memory) {
    return fail_within(fmt::format("KV cache for {} positions", capacity), memory.error());
  }
  cache.memory_ = std::move(*memory);

  int64_t n_pages = 0;
  for (int ratio : ratios) {
    if (ratio != 0) n_pages += series_shape(config.head_dim, ratio, capacity).n_pages;
    if (ratio == 4) n_pages += series_shape(config.index_head_dim, ratio, capacity).n_pages;
  }
  cache.pages_.resize(static_cast<size_t>(n_pages));
  Carver carver(cache.memory_.data());
  std::byte** next_page = cache.pages_.data();
  for (int ratio : ratios) {
    LayerKv layer;
    layer.ring = Tensor(carver.take(kRingRows * config.head_dim * 4), DType::kF32,
                        {kRingRows, config.head_dim});
    if (ratio != 0) {
      layer.attn = carve_series(carver, series_shape(config.head_dim, ratio, capacity), next_page);
    }
    if (ratio == 4) {
      layer.index =
          carve_series(carver, series_shape(config.index_head_dim, ratio, capacity), next_page);
    }
    cache.layers_.push_back(layer);
  }
  cache.reset();
  return cache;
}

void KvCache::advance(int64_t n) {
  DS4_CHECK(n >= 0 && length_ + n <= capacity_);
  length_ += n;
}

void KvCache::reset() {
  length_ = 0;
  for (const LayerKv& layer : layers_) {
    reset_frontier(*device_, layer.attn);
    reset_frontier(*device_, layer.index);
  }
}

}  // namespace ds4
