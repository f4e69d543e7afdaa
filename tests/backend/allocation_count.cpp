// Alone in its file: where the compiler sees through the replaced operators, it takes the free() of
// a new expression's memory for a mistake.
#include "tests/backend/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> n_allocations{0};

}  // namespace

void* operator new(size_t size) {
  ++n_allocations;
  if (void* p = std::malloc(size)) return p;
  std::abort();
}
void* operator new(size_t size, std::align_val_t align) {
  ++n_allocations;
  const size_t step = static_cast<size_t>(align);
  if (void* p = std::aligned_alloc(step, (size + step - 1) / step * step)) return p;
  std::abort();
}
void* operator new(size_t size, const std::nothrow_t&) noexcept { return operator new(size); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }

namespace ds4::test {

int64_t allocation_count() { return n_allocations; }

}  // namespace ds4::test
