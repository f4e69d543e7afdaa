// In front of the C library: each function counts and calls the next definition. Sanitizers stand
// in the same place for memory and locks, and two cannot; there only the environment is counted.
#include "tests/engine/step_counters.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace {

std::atomic<bool> g_counting{false};
std::atomic<int64_t> g_allocations{0}, g_locks{0}, g_environment{0};

void count(std::atomic<int64_t>& counter) {
  if (g_counting.load(std::memory_order_relaxed)) counter.fetch_add(1, std::memory_order_relaxed);
}

template <typename Fn>
Fn next_function(const char* name) {
  // Condition variables have an old form under the same name; 2.3.2 is the one of today.
  void* found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
  if (found == nullptr) found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) std::abort();
  Fn fn;
  std::memcpy(&fn, &found, sizeof(fn));
  return fn;
}

}  // namespace

// NAME(TYPES)(ARGS): counts in COUNTER and calls the C library's function.
#define DS4_COUNTED(counter, result, name, types, args)             \
  extern "C" result name types {                                    \
    static const auto next = next_function<result(*) types>(#name); \
    count(counter);                                                 \
    return next args;                                               \
  }

DS4_COUNTED(g_environment, char*, getenv, (const char* name), (name))
DS4_COUNTED(g_environment, char*, secure_getenv, (const char* name), (name))

#ifndef DS4_SANITIZED
// glibc offers its allocator under a second name, so that looking up the first cannot allocate.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t n, size_t size);
void* __libc_realloc(void* p, size_t size);
void* __libc_memalign(size_t align, size_t size);

void* malloc(size_t size) {
  count(g_allocations);
  return __libc_malloc(size);
}
void* calloc(size_t n, size_t size) {
  count(g_allocations);
  return __libc_calloc(n, size);
}
void* realloc(void* p, size_t size) {
  count(g_allocations);
  return __libc_realloc(p, size);
}
void* aligned_alloc(size_t align, size_t size) {
  count(g_allocations);
  return __libc_memalign(align, size);
}
void* memalign(size_t align, size_t size) {
  count(g_allocations);
  return __libc_memalign(align, size);
}
int posix_memalign(void** out, size_t align, size_t size) {
  count(g_allocations);
  *out = __libc_memalign(align, size);
  return *out == nullptr ? ENOMEM : 0;
}
}

DS4_COUNTED(g_allocations, void*, mmap,
            (void* at, size_t size, int protection, int flags, int fd, off_t offset),
            (at, size, protection, flags, fd, offset))
DS4_COUNTED(g_locks, int, pthread_mutex_lock, (pthread_mutex_t * mutex), (mutex))
DS4_COUNTED(g_locks, int, pthread_mutex_trylock, (pthread_mutex_t * mutex), (mutex))
DS4_COUNTED(g_locks, int, pthread_cond_wait, (pthread_cond_t * cond, pthread_mutex_t* mutex),
            (cond, mutex))
DS4_COUNTED(g_locks, int, pthread_cond_signal, (pthread_cond_t * cond), (cond))
DS4_COUNTED(g_locks, int, pthread_cond_broadcast, (pthread_cond_t * cond), (cond))
DS4_COUNTED(g_locks, int, pthread_rwlock_rdlock, (pthread_rwlock_t * lock), (lock))
DS4_COUNTED(g_locks, int, pthread_rwlock_wrlock, (pthread_rwlock_t * lock), (lock))
DS4_COUNTED(g_locks, int, pthread_rwlock_tryrdlock, (pthread_rwlock_t * lock), (lock))
DS4_COUNTED(g_locks, int, pthread_rwlock_trywrlock, (pthread_rwlock_t * lock), (lock))
#endif

namespace ds4::test {

void start_counting() {
  g_allocations = 0;
  g_locks = 0;
  g_environment = 0;
  g_counting = true;
}

StepCounts stop_counting() {
  g_counting = false;
  return {.allocations = g_allocations, .locks = g_locks, .environment = g_environment};
}

bool counts_memory_and_locks() {
#ifdef DS4_SANITIZED
  return false;
#else
  return true;
#endif
}

}  // namespace ds4::test
