#pragma once
// Pages of one size on one device, with counted owners: what sessions, forks and snapshots share.
//
// A page fills from its front, and every owner says how many of its rows it looks at. A row that no
// other owner looks at may be written in place (`writable`); otherwise the writer takes a copy. So
// a session goes on in a page it shares with its own snapshots, the first of two forks as well, and
// only the second one copies.
//
//   page      rows 0 .. 255; owner A sees 10 of them, owner B 25: A may write neither row 10 nor
//   any
//             other one, B may write row 25
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

// One owner's hold on a page, and how much of it this owner sees; empty by default. The owners of a
// page know each other as a ring. The pool must outlive them.
class PageRef {
 public:
  PageRef() = default;
  PageRef(const PageRef& other) { join(other); }
  PageRef(PageRef&& other) noexcept {
    join(other);
    other.leave();
  }
  PageRef& operator=(const PageRef& other);
  PageRef& operator=(PageRef&& other) noexcept;
  ~PageRef() { leave(); }

  bool empty() const { return page_ == nullptr; }
  std::byte* data() const { return page_->data; }

  // True when no other owner sees row `row` or a later one.
  bool writable(int64_t row) const;
  // This owner sees rows 0 .. n - 1 from now on.
  void set_rows(int64_t n) { n_rows_ = n; }

 private:
  friend class PagePool;
  struct Page {
    PagePool* pool = nullptr;
    std::byte* data = nullptr;
    bool owned = false;
  };
  explicit PageRef(Page* page) : page_(page) { page->owned = true; }
  void join(const PageRef& other);
  void leave();

  Page* page_ = nullptr;
  int64_t n_rows_ = 0;
  // Neighbours in the ring of the page's owners; itself when it is alone.
  const PageRef* next_ = this;
  const PageRef* previous_ = this;
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
