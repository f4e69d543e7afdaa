#pragma once
// Pages of one size on one device, with counted owners: what sessions, forks and snapshots share.
//
// A page fills from its front and a row, once written, never changes, so two owners may look at
// different lengths of one page. Only the next row needs care: it may be written in place as long
// as nobody else wrote it before (`writable`), otherwise the writer takes a copy.
//
//   page      rows 0 .. written-1 are somebody's; each owner knows how many of them are its own
//   slab      pages allocated together; given back when all are free and nobody reserved them
//
// Memory comes in reserve() and goes in unreserve(); take() and dropping a reference move pages
// between owners and a free list and allocate nothing. Single-thread.
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/result.h"
#include "ops/device.h"

namespace ds4 {

class PagePool;

// One owner's hold on a page; empty by default. The pool must outlive it.
class PageRef {
 public:
  PageRef() = default;
  PageRef(const PageRef& other) : page_(other.page_) { retain(); }
  PageRef(PageRef&& other) noexcept : page_(std::exchange(other.page_, nullptr)) {}
  PageRef& operator=(PageRef other) noexcept {
    std::swap(page_, other.page_);
    return *this;
  }
  ~PageRef() { release(); }

  bool empty() const { return page_ == nullptr; }
  std::byte* data() const { return page_->data; }

  // True when row `row` can be written in place.
  bool writable(int64_t row) const { return page_->n_owners == 1 || row >= page_->written; }
  // Rows before `end` are now somebody's. A sole owner that writes an earlier row again takes back
  // what came after it.
  void set_written(int64_t end) { page_->written = end; }

 private:
  friend class PagePool;
  struct Page {
    PagePool* pool = nullptr;
    std::byte* data = nullptr;
    int64_t n_owners = 0;
    int64_t written = 0;  // rows
  };
  explicit PageRef(Page* page) : page_(page) {}
  void retain();
  void release();

  Page* page_ = nullptr;
};

class PagePool {
 public:
  // `device` must outlive the pool.
  PagePool(Device& device, int64_t page_bytes) : device_(device), page_bytes_(page_bytes) {}
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  // Makes sure that `n` more pages than reserved so far exist. Errors: kOutOfMemory, nothing
  // changed.
  Result<void> reserve(int64_t n);
  // Takes back a reservation; frees the slabs that are free and not needed by the other ones.
  void unreserve(int64_t n);

  // A page nobody owns, contents undefined; empty when there is none.
  PageRef take();

  int64_t page_bytes() const { return page_bytes_; }
  int64_t n_pages() const { return n_pages_; }
  int64_t n_free() const { return static_cast<int64_t>(free_.size()); }

 private:
  friend class PageRef;
  struct Slab {
    Buffer memory;
    std::vector<PageRef::Page> pages;
  };
  void drop_slab(size_t i);

  Device& device_;
  const int64_t page_bytes_;
  int64_t n_reserved_ = 0;
  int64_t n_pages_ = 0;
  std::vector<std::unique_ptr<Slab>> slabs_;
  std::vector<PageRef::Page*> free_;  // last in, first out: a warm page comes back first
};

}  // namespace ds4
