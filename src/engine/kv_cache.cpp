#include "engine/kv_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ds4 {
namespace {

constexpr int64_t kAlign = 64;
constexpr int64_t kF32 = sizeof(float);

int64_t aligned(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

int64_t pages_for(int64_t capacity, int ratio) {
  return (capacity / ratio + kPageRows - 1) / kPageRows;
}

Shape frontier_shape(int ratio, int64_t head_dim) {
  return ratio == 4 ? Shape{8, 2 * head_dim} : Shape{ratio, head_dim};
}

int64_t frontier_bytes(int ratio, int64_t head_dim) {
  return aligned(frontier_shape(ratio, head_dim).n_elements() * kF32);
}

// Frontier rows that mean something at `length`: those of the last complete window (ratio 4) and of
// the current one.
int64_t live_frontier_rows(int ratio, int64_t length) {
  return ratio == 4 ? 4 + length % 4 : length % ratio;
}

int64_t ring_bytes(int64_t head_dim, RowFormat format) {
  return aligned(KvCache::kRingRows * kv_row_bytes(format, head_dim));
}

// Rings and frontiers of one cache.
int64_t own_bytes(const ModelConfig& config, std::span<const int> ratios,
                  const KvStorage& storage) {
  int64_t bytes = 0;
  for (int ratio : ratios) {
    bytes += ring_bytes(config.head_dim, storage.kv);
    if (ratio != 0) bytes += 2 * frontier_bytes(ratio, config.head_dim);
    if (ratio == 4) bytes += 2 * frontier_bytes(ratio, config.index_head_dim);
  }
  return bytes;
}

struct PageCounts {
  int64_t attn = 0;
  int64_t index = 0;
};

PageCounts count_pages(std::span<const int> ratios, int64_t capacity) {
  PageCounts n;
  for (int ratio : ratios) {
    if (ratio != 0) n.attn += pages_for(capacity, ratio);
    if (ratio == 4) n.index += pages_for(capacity, ratio);
  }
  return n;
}

int64_t page_bytes(int64_t head_dim, RowFormat format) {
  return aligned(kPageRows * kv_row_bytes(format, head_dim));
}

}  // namespace

KvPool::KvPool(Device& device, const ModelConfig& config, std::span<const int> ratios,
               const KvStorage& storage)
    : device_(device),
      head_dim_(config.head_dim),
      index_head_dim_(config.index_head_dim),
      window_(config.window),
      ratios_(ratios.begin(), ratios.end()),
      storage_(storage),
      attn_(device, page_bytes(config.head_dim, storage.kv)),
      index_(device, page_bytes(config.index_head_dim, storage.index)) {}

Result<std::unique_ptr<KvPool>> KvPool::create(Device& device, const ModelConfig& config,
                                               std::span<const int> ratios,
                                               const KvStorage& storage) {
  DS4_CHECK(config.window <= KvCache::kRingRows && config.rope_head_dim == 64);
  std::unique_ptr<KvPool> pool(new KvPool(device, config, ratios, storage));
  int64_t blank = 0;
  for (int ratio : ratios) {
    if (ratio != 0) blank = std::max(blank, frontier_bytes(ratio, config.head_dim));
    if (ratio == 4) blank = std::max(blank, frontier_bytes(ratio, config.index_head_dim));
  }
  DS4_TRY(pool->blank_, device.allocate(2 * blank));
  const std::vector<float> zeros(static_cast<size_t>(blank / kF32), 0.0f);
  const std::vector<float> minus_infinity(zeros.size(), -INFINITY);
  device.upload(pool->blank_.data(), std::as_bytes(std::span(zeros)));
  device.upload(pool->blank_.data() + blank, std::as_bytes(std::span(minus_infinity)));
  return pool;
}

int64_t KvPool::page_bytes_needed(int64_t capacity) const {
  const PageCounts n = count_pages(ratios_, capacity);
  return n.attn * attn_.page_bytes() + n.index * index_.page_bytes();
}

Result<void> KvPool::reserve(int64_t capacity) {
  const PageCounts n = count_pages(ratios_, capacity);
  DS4_TRY_VOID(attn_.reserve(n.attn));
  if (auto reserved = index_.reserve(n.index); !reserved) {
    attn_.unreserve(n.attn);
    return reserved;
  }
  return {};
}

void KvPool::unreserve(int64_t capacity) {
  const PageCounts n = count_pages(ratios_, capacity);
  attn_.unreserve(n.attn);
  index_.unreserve(n.index);
}

int64_t KvCache::bytes_needed(const ModelConfig& config, std::span<const int> ratios,
                              const KvStorage& storage, int64_t capacity) {
  const PageCounts n = count_pages(ratios, capacity);
  return own_bytes(config, ratios, storage) + n.attn * page_bytes(config.head_dim, storage.kv) +
         n.index * page_bytes(config.index_head_dim, storage.index);
}

Result<KvCache> KvCache::create(KvPool& pool, int64_t capacity) {
  ModelConfig widths;
  widths.head_dim = pool.head_dim_;
  widths.index_head_dim = pool.index_head_dim_;
  const std::string what = fmt::format("KV cache for {} positions", capacity);
  KvCache cache(pool);
  cache.capacity_ = capacity;
  if (auto reserved = pool.reserve(capacity); !reserved) {
    return fail_within(what, std::move(reserved.error()));
  }
  cache.reservation_ = {&pool, Releaser{capacity}};
  auto memory = pool.device_.allocate(own_bytes(widths, pool.ratios_, pool.storage_));
  if (!memory) return fail_within(what, std::move(memory.error()));
  cache.memory_ = std::move(*memory);

  std::byte* next = cache.memory_.data();
  cache.layers_.resize(pool.ratios_.size());  // before anything points into it
  for (size_t i = 0; i < cache.layers_.size(); ++i) {
    LayerKv& layer = cache.layers_[i];
    const int ratio = pool.ratios_[i];
    layer.ring = RingRows(next, kRingRows, pool.head_dim_, pool.storage_.kv);
    next += ring_bytes(pool.head_dim_, pool.storage_.kv);
    if (ratio != 0) {
      cache.add_series(pool.attn_, ratio, pool.head_dim_, pool.storage_.kv, layer.attn, next);
    }
    if (ratio == 4) {
      cache.add_series(pool.index_, ratio, pool.index_head_dim_, pool.storage_.index, layer.index,
                       next);
    }
  }
  cache.clear_frontiers();
  return cache;
}

void KvCache::add_series(PagePool& pages, int ratio, int64_t head_dim, RowFormat format,
                         CompressedKv& view, std::byte*& memory) {
  Series& series = series_.emplace_back();
  series.pool = &pages;
  series.ratio = ratio;
  series.view = &view;
  const size_t n_pages = static_cast<size_t>(pages_for(capacity_, ratio));
  series.pages.reserve(n_pages);
  series.table.resize(n_pages);
  view.rows = {
      .pages = series.table.data(), .row_bytes = kv_row_bytes(format, head_dim), .format = format};
  const Shape shape = frontier_shape(ratio, head_dim);
  view.frontier_kv = Tensor(memory, DType::kF32, shape);
  memory += frontier_bytes(ratio, head_dim);
  view.frontier_score = Tensor(memory, DType::kF32, shape);
  memory += frontier_bytes(ratio, head_dim);
}

void KvCache::clear_frontiers() {
  const std::byte* zeros = pool_->blank_.data();
  const std::byte* minus_infinity = zeros + pool_->blank_.size_bytes() / 2;
  for (const Series& series : series_) {
    const Tensor& kv = series.view->frontier_kv;
    const int64_t bytes = kv.shape().n_elements() * kF32;
    pool_->device_.copy(kv.data(), zeros, bytes);
    pool_->device_.copy(series.view->frontier_score.data(), minus_infinity, bytes);
  }
}

Result<void> KvCache::prepare(int64_t n) {
  DS4_CHECK(n >= 0 && length_ + n <= capacity_);
  const int64_t from = std::max(length_, prepared_), to = length_ + n;
  if (to <= from) return {};
  for (Series& series : series_) {
    DS4_TRY_VOID(prepare_series(series, from / series.ratio, to / series.ratio));
  }
  prepared_ = to;
  return {};
}

// Rows [first, last) of one series.
Result<void> KvCache::prepare_series(Series& series, int64_t first, int64_t last) {
  for (int64_t row = first; row < last;) {
    const size_t p = static_cast<size_t>(row / kPageRows);
    const int64_t in_page = row % kPageRows;
    const int64_t end = std::min(kPageRows, in_page + last - row);
    row += end - in_page;
    const bool present = p < series.pages.size();
    if (!present || !series.pages[p].writable(in_page)) {
      PageRef page = series.pool->take();
      if (page.empty()) {
        return fail(ErrorCode::kOutOfMemory,
                    fmt::format("KV cache: all {} pages of {} bytes are in use",
                                series.pool->n_pages(), series.pool->page_bytes()));
      }
      if (present) {
        pool_->device_.copy(page.data(), series.pages[p].data(),
                            in_page * series.view->rows.row_bytes);
        series.pages[p] = std::move(page);
      } else {
        series.pages.push_back(std::move(page));
      }
      series.table[p] = series.pages[p].data();
    }
    series.pages[p].set_rows(end);
  }
  return {};
}

void KvCache::advance(int64_t n) {
  DS4_CHECK(n >= 0 && length_ + n <= prepared_);
  length_ += n;
}

template <typename Part>
void KvCache::each_live_part(int64_t length, Part part) const {
  const auto frontier = [&](const CompressedKv& series, int ratio) {
    if (series.frontier_kv.empty()) return;
    const int64_t bytes = live_frontier_rows(ratio, length) * series.frontier_kv.n_cols() * kF32;
    part(series.frontier_kv.data(), bytes);
    part(series.frontier_score.data(), bytes);
  };
  for (size_t i = 0; i < layers_.size(); ++i) {
    const LayerKv& layer = layers_[i];
    for (int64_t pos = std::max<int64_t>(0, length - pool_->window_); pos < length;) {
      const int64_t slot = pos % kRingRows, n = std::min(length - pos, kRingRows - slot);
      part(layer.ring.row(slot), n * layer.ring.row_bytes);
      pos += n;
    }
    frontier(layer.attn, pool_->ratios_[i]);
    frontier(layer.index, pool_->ratios_[i]);
  }
}

int64_t KvCache::capture_bytes() const {
  int64_t bytes = 0;
  each_live_part(length_, [&](std::byte*, int64_t n) { bytes += n; });
  return bytes;
}

int64_t KvCache::live_bytes() const {
  int64_t bytes = capture_bytes();
  for (const Series& series : series_)
    bytes += length_ / series.ratio * series.view->rows.row_bytes;
  return bytes;
}

Result<KvPoint> KvCache::capture() const {
  KvPoint point;
  point.length = length_;
  DS4_TRY(point.state, pool_->device_.allocate(capture_bytes()));
  std::byte* next = point.state.data();
  each_live_part(length_, [&](const std::byte* data, int64_t n) {
    pool_->device_.copy(next, data, n);
    next += n;
  });
  for (const Series& series : series_) {
    const int64_t n_rows = length_ / series.ratio;
    for (int64_t p = 0; p < pages_for(length_, series.ratio); ++p) {
      PageRef& page = point.pages.emplace_back(series.pages[static_cast<size_t>(p)]);
      page.set_rows(std::min(kPageRows, n_rows - p * kPageRows));
    }
  }
  return point;
}

Result<void> KvCache::restore(const KvPoint& point) {
  if (point.length > capacity_) {
    return fail(ErrorCode::kContextFull,
                fmt::format("a snapshot of {} positions does not fit into a context of {}",
                            point.length, capacity_));
  }
  clear_frontiers();
  const std::byte* next = point.state.data();
  each_live_part(point.length, [&](std::byte* data, int64_t n) {
    pool_->device_.copy(data, next, n);
    next += n;
  });
  auto page = point.pages.begin();
  for (Series& series : series_) {
    const auto n_pages = static_cast<std::ptrdiff_t>(pages_for(point.length, series.ratio));
    series.pages.assign(page, page + n_pages);
    page += n_pages;
    std::ranges::transform(series.pages, series.table.begin(), &PageRef::data);
  }
  length_ = prepared_ = point.length;
  return {};
}

void KvCache::reset() {
  length_ = prepared_ = 0;
  for (Series& series : series_) series.pages.clear();
  clear_frontiers();
}

}  // namespace ds4
