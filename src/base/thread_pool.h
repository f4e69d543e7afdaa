#pragma once
// A fixed set of threads that splits a range of independent pieces of work.
//
// The split decides only who computes a piece, never in which order a sum is formed, so results do
// not depend on the number of threads. A ThreadPool is passed to who needs it; there is no global
// one. One caller at a time (single-thread from outside); a task must not call back into the pool.
#include <cstdint>
#include <memory>
#include <type_traits>

namespace ds4 {

class ThreadPool {
 public:
  // `n_threads` includes the calling thread; values below 1 mean one per processor this process may
  // run on.
  explicit ThreadPool(int n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_threads() const;

  // Calls fn(begin, end) for a partition of [0, n) into at most n_threads() contiguous parts, and
  // returns when all are done. Runs inline when n < 2 or there is one thread. Allocates nothing.
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

// Processors this process may run on (its affinity mask), at least 1.
int available_processors();

}  // namespace ds4
