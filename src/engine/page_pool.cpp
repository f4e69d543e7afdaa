#include "engine/page_pool.h"

#include <fmt/format.h>

#include <algorithm>

namespace ds4 {

// Owners are found through each other, so the ring's links change on const neighbours too.
void PageRef::join(const PageRef& other) {
  page_ = other.page_;
  n_rows_ = other.n_rows_;
  if (page_ == nullptr) return;
  PageRef& before = const_cast<PageRef&>(other);
  PageRef& after = const_cast<PageRef&>(*other.next_);
  previous_ = &before;
  next_ = &after;
  before.next_ = this;
  after.previous_ = this;
}

void PageRef::leave() {
  if (page_ == nullptr) return;
  if (next_ == this) {
    page_->owned = false;
    page_->pool->free_.push_back(page_);  // reserve() made room for every page
  } else {
    const_cast<PageRef*>(previous_)->next_ = next_;
    const_cast<PageRef*>(next_)->previous_ = previous_;
  }
  page_ = nullptr;
  next_ = previous_ = this;
}

PageRef& PageRef::operator=(const PageRef& other) {
  if (this != &other) {
    leave();
    join(other);
  }
  return *this;
}

PageRef& PageRef::operator=(PageRef&& other) noexcept {
  if (this != &other) {
    leave();
    join(other);
    other.leave();
  }
  return *this;
}

bool PageRef::writable(int64_t row) const {
  for (const PageRef* other = next_; other != this; other = other->next_) {
    if (other->n_rows_ > row) return false;
  }
  return true;
}

Result<void> PagePool::reserve(int64_t n) {
  DS4_CHECK(n >= 0);
  const int64_t missing = n_reserved_ + n - n_pages_;
  if (missing > 0) {
    DS4_TRY(Buffer memory, device_.allocate(missing * page_bytes_));
    auto slab = std::make_unique<Slab>();
    slab->pages.resize(static_cast<size_t>(missing));
    free_.reserve(static_cast<size_t>(n_pages_ + missing));
    // Pages leave the list from its end: the first ones of the slab go first.
    for (int64_t i = missing - 1; i >= 0; --i) {
      PageRef::Page& page = slab->pages[static_cast<size_t>(i)];
      page.pool = this;
      page.data = memory.data() + i * page_bytes_;
      free_.push_back(&page);
    }
    slab->memory = std::move(memory);
    slabs_.push_back(std::move(slab));
    n_pages_ += missing;
  }
  n_reserved_ += n;
  return {};
}

void PagePool::unreserve(int64_t n) {
  DS4_CHECK(n >= 0 && n <= n_reserved_);
  n_reserved_ -= n;
  for (size_t i = slabs_.size(); i-- > 0;) {
    const int64_t size = static_cast<int64_t>(slabs_[i]->pages.size());
    const bool is_free = std::ranges::all_of(slabs_[i]->pages,
                                             [](const PageRef::Page& page) { return !page.owned; });
    if (is_free && n_pages_ - size >= n_reserved_) drop_slab(i);
  }
}

void PagePool::drop_slab(size_t i) {
  const std::vector<PageRef::Page>& pages = slabs_[i]->pages;
  const PageRef::Page* begin = pages.data();
  const PageRef::Page* end = begin + pages.size();
  std::erase_if(free_, [&](const PageRef::Page* page) { return page >= begin && page < end; });
  n_pages_ -= static_cast<int64_t>(pages.size());
  slabs_.erase(slabs_.begin() + static_cast<std::ptrdiff_t>(i));
}

PageRef PagePool::take() {
  if (free_.empty()) return {};
  PageRef::Page* page = free_.back();
  free_.pop_back();
  return PageRef(page);
}

}  // namespace ds4
