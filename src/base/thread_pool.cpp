#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace ds4 {

// Workers sleep on `start` and are woken by a new generation number; the caller does its own part
// and then waits on `done`. No spinning yet: a spinning pool beside one busy process is far slower
// than a sleeping one, and the time of a wake-up does not show in the first form of the CPU
// backend.
struct ThreadPool::State {
  int n_threads = 1;

  // Guarded by mutex.
  std::mutex mutex;
  std::condition_variable start;
  std::condition_variable done;
  uint64_t generation = 0;
  int running = 0;
  bool stopping = false;
  int64_t n = 0;
  Task task = nullptr;
  void* context = nullptr;

  // Last, so that the threads are joined before anything they use goes away.
  std::vector<std::jthread> workers;

  // Part `i` of `n` pieces: sizes differ by at most one.
  static std::pair<int64_t, int64_t> part(int64_t n, int parts, int i) {
    const int64_t base = n / parts;
    const int64_t extra = n % parts;
    const int64_t begin = i * base + std::min<int64_t>(i, extra);
    return {begin, begin + base + (i < extra ? 1 : 0)};
  }

  void work(int index) {
    uint64_t seen = 0;
    while (true) {
      std::unique_lock lock(mutex);
      start.wait(lock, [&] { return stopping || generation != seen; });
      if (stopping) return;
      seen = generation;
      const auto [begin, end] = part(n, n_threads, index);
      const Task my_task = task;
      void* const my_context = context;
      lock.unlock();
      if (begin < end) my_task(my_context, begin, end);
      lock.lock();
      if (--running == 0) done.notify_one();
    }
  }
};

ThreadPool::ThreadPool(int n_threads) : state_(std::make_unique<State>()) {
  state_->n_threads = n_threads < 1 ? available_processors() : n_threads;
  for (int i = 1; i < state_->n_threads; ++i) {
    state_->workers.emplace_back([state = state_.get(), i] { state->work(i); });
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::scoped_lock lock(state_->mutex);
    state_->stopping = true;
  }
  state_->start.notify_all();
}

int ThreadPool::n_threads() const { return state_->n_threads; }

void ThreadPool::run(int64_t n, Task task, void* context) {
  if (n <= 0) return;
  State& s = *state_;
  if (s.n_threads == 1 || n == 1) {
    task(context, 0, n);
    return;
  }
  {
    const std::scoped_lock lock(s.mutex);
    s.n = n;
    s.task = task;
    s.context = context;
    s.running = s.n_threads - 1;
    ++s.generation;
  }
  s.start.notify_all();
  const auto [begin, end] = State::part(n, s.n_threads, 0);
  if (begin < end) task(context, begin, end);
  std::unique_lock lock(s.mutex);
  s.done.wait(lock, [&] { return s.running == 0; });
}

int available_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

}  // namespace ds4
