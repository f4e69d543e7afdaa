#pragma once
// A fixed set of threads that splits a range of independent pieces of work.
//
// The split decides only who computes a piece, never in which order a sum is formed, so results do
// not depend on the number of threads. A ThreadPool is passed to who needs it; there is no global
// one. One caller at a time (single-thread from outside); a task must not call back into the pool.
//
// No locks: a part is handed over through one atomic word per worker. The calling thread computes a
// part that its worker has not begun when the caller is done with its own, so a worker that the
// system runs late (a busy machine, a CPU quota) costs the time of its part and not of its wake-up.
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

namespace ds4 {

class ThreadPool {
 public:
  // `n_threads` includes the calling thread; values below 1 mean available_processors().
  explicit ThreadPool(int n_threads);
  // `n_threads` as above. With `pin`, each thread keeps to a processor of its own for as long as
  // the pool lives, the calling thread included, which gets its processors back afterwards; fewer
  // processors than threads, or a system that refuses, leave all threads free (see is_pinned).
  ThreadPool(int n_threads, bool pin);
  // `spin` is how long an idle worker looks for its next part before it sleeps. Pools with more
  // threads than available_processors() never spin: they would wait for each other.
  ThreadPool(int n_threads, std::chrono::microseconds spin);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_threads() const;
  bool is_pinned() const;

  // Calls fn(begin, end) for a partition of [0, n) into at most n_threads() contiguous parts, and
  // returns when all are done. Runs inline when n < 2 or there is one thread. Allocates nothing
  // and takes no lock.
  template <typename Fn>
  void parallel_for(int64_t n, Fn&& fn) {
    run(
        n,
        [](void* context, int64_t begin, int64_t end) {
          (*static_cast<std::remove_reference_t<Fn>*>(context))(begin, end);
        },
        const_cast<void*>(static_cast<const void*>(&fn)));
  }

 private:
  using Task = void (*)(void* context, int64_t begin, int64_t end);
  void run(int64_t n, Task task, void* context);

  struct State;
  std::unique_ptr<State> state_;
};

// Processors this process can keep busy, at least 1: its affinity mask, or its control groups' CPU
// quota rounded up where that is less. `root` as in base/control_group.h.
int available_processors(const std::string& root = "");

}  // namespace ds4
