#pragma once
// The state of one session in the layers of one stage: what attention can look back on.
//
//   every layer        ring        kRingRows rows of head_dim   raw rows, row = position mod
//                                                               kRingRows
//   ratio 4 or 128     rows        floor(length / ratio)        compressed rows, pages of kPageRows
//                      frontier    [8, 2h] or [128, h], twice   windows that are not complete yet
//   ratio 4            index rows and index frontier, 128 wide
//
// Rings and frontiers are a session's own. Pages come from a KvPool and are shared: with the points
// captured from the session, and with sessions restored from those. The roundings of the precision
// profile have been applied before a row is stored, so every reader sees the same values, and a
// packed row (KvStorage) holds the same values as one of f32. Frontiers are f32.
//
// Memory is taken at create(); a step allocates nothing. Single-thread; the KvPool must outlive
// caches and points.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/page_pool.h"
#include "model/config.h"
#include "ops/device.h"
#include "ops/kv_view.h"

namespace ds4 {

// What the KV caches of one engine have in common: sizes, and the pages.
class KvPool {
 public:
  // One layer per entry of `ratios` (0, 4 or 128), rows stored as the backend's kv_storage() says.
  // `device` must outlive the pool. Errors: kOutOfMemory.
  static Result<std::unique_ptr<KvPool>> create(Device& device, const ModelConfig& config,
                                                std::span<const int> ratios,
                                                const KvStorage& storage);

  // Pages that `capacity` positions need, more than what is reserved already.
  // Errors: kOutOfMemory with the bytes asked for; nothing changed.
  Result<void> reserve(int64_t capacity);
  void unreserve(int64_t capacity);
  // Bytes of reserve(capacity).
  int64_t page_bytes_needed(int64_t capacity) const;

  Device& device() const { return device_; }
  std::span<const int> ratios() const { return ratios_; }
  const KvStorage& storage() const { return storage_; }
  const PagePool& attn_pages() const { return attn_; }
  const PagePool& index_pages() const { return index_; }

 private:
  friend class KvCache;
  KvPool(Device& device, const ModelConfig& config, std::span<const int> ratios,
         const KvStorage& storage);

  Device& device_;
  const int64_t head_dim_;
  const int64_t index_head_dim_;
  const int64_t window_;
  const std::vector<int> ratios_;
  const KvStorage storage_;
  PagePool attn_;
  PagePool index_;
  Buffer blank_;  // the largest empty frontier: zeros, then as many -inf
};

// The state of a cache at one length, to restore later. Holds the pages with the rows of that
// length, and a copy of the live part of rings and frontiers:
//
//   layer by layer    ring rows of the last min(length, 128) positions, oldest first
//                     attention frontier, kv then score; index frontier likewise
//   frontier rows     ratio 4: rows 0-3 and the length mod 4 that follow; ratio 128: length mod 128
//
// Immutable; restoring it does not change it.
struct KvPoint {
  int64_t length = 0;
  Buffer state;
  std::vector<PageRef> pages;  // series by series in layer order, attention before index
};

class KvCache {
 public:
  // Ring slots: the window of 128, and as many again so that up to 128 speculative rows can be
  // written without losing one that is still visible after a rewind.
  static constexpr int64_t kRingRows = 256;

  // For up to `capacity` positions; reserves that many pages.
  // Errors: kOutOfMemory with the bytes asked for.
  static Result<KvCache> create(KvPool& pool, int64_t capacity);

  // Bytes create() would take, pages included.
  static int64_t bytes_needed(const ModelConfig& config, std::span<const int> ratios,
                              const KvStorage& storage, int64_t capacity);

  int64_t length() const { return length_; }  // positions held: 0 .. length - 1
  int64_t capacity() const { return capacity_; }

  // Views of layer `i`, for the ops of a step.
  const LayerKv& layer(int i) const { return layers_[static_cast<size_t>(i)]; }

  // Gives the next `n` positions pages of their own to write to; views of layers taken before are
  // stale. Called again for the same positions it does nothing. Errors: kOutOfMemory when points
  // and other sessions hold all pages; the cache is as before.
  Result<void> prepare(int64_t n);

  // Called when a step over `n` further positions is complete in every layer.
  void advance(int64_t n);

  // Errors: kOutOfMemory; the cache is never changed.
  Result<KvPoint> capture() const;
  int64_t capture_bytes() const;  // of KvPoint::state
  // What the state at the present length is made of: capture_bytes() and all compressed rows.
  int64_t live_bytes() const;

  // Becomes the cache the point was captured from, which may have had another capacity and must
  // have had the same pool. Errors: kContextFull when the point is longer than this cache, which is
  // then unchanged.
  Result<void> restore(const KvPoint& point);

  // Forgets everything: length 0, frontiers at (0, -inf).
  void reset();

 private:
  // One sequence of compressed rows: attention's or the indexer's of a layer.
  struct Series {
    PagePool* pool = nullptr;
    int ratio = 0;
    CompressedKv* view = nullptr;   // in layers_
    std::vector<PageRef> pages;     // reserved for the whole capacity
    std::vector<std::byte*> table;  // their data, for PagedRows; as many as the capacity needs
  };
  struct Releaser {
    int64_t capacity;
    void operator()(KvPool* pool) const { pool->unreserve(capacity); }
  };

  explicit KvCache(KvPool& pool) : pool_(&pool) {}
  void add_series(PagePool& pages, int ratio, int64_t head_dim, RowFormat format,
                  CompressedKv& view, std::byte*& memory);
  Result<void> prepare_series(Series& series, int64_t first, int64_t last);
  // Calls part(data, bytes) for every piece of memory that KvPoint::state copies at `length`.
  template <typename Part>
  void each_live_part(int64_t length, Part part) const;
  void clear_frontiers();

  KvPool* pool_;
  std::unique_ptr<KvPool, Releaser> reservation_;
  int64_t length_ = 0;
  int64_t prepared_ = 0;  // positions that have pages to write to, at least length_
  int64_t capacity_ = 0;
  Buffer memory_;  // rings and frontiers
  std::vector<LayerKv> layers_;
  std::vector<Series> series_;
};

}  // namespace ds4
