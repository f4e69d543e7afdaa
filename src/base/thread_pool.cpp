#include "base/thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <span>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/control_group.h"

namespace ds4 {
namespace {

// Longer than the gaps between the ops of a step, far shorter than a time slice. Measured in
// docs/perf.md.
constexpr std::chrono::microseconds kSpin{50};

// The word of one worker. The caller hands over a part by kOffered and takes it back if it is still
// there when its own part is done; a worker makes it kTaken, computes, and returns to kIdle.
//
//   kIdle <--> kParked        worker: goes to sleep / is woken by an offer
//   kIdle | kParked -> kOffered -> kTaken [-> kAwaited] -> kIdle
//                          \-> kIdle          caller: computes the part itself
//   kIdle | kParked -> kStop
enum State : uint32_t { kIdle, kParked, kOffered, kTaken, kAwaited, kStop };

struct alignas(64) Slot {
  std::atomic<uint32_t> state{kIdle};

  // Sets the state and wakes the thread that sleeps on `sleeping`.
  void set(State next, State sleeping) {
    if (state.exchange(next, std::memory_order_seq_cst) == sleeping) futex(FUTEX_WAKE_PRIVATE, 1);
  }
  // Sleeps while the state is `value`.
  void sleep_while(State value) {
    while (state.load(std::memory_order_acquire) == value) futex(FUTEX_WAIT_PRIVATE, value);
  }
  bool advance(State from, State to) {
    uint32_t expected = from;
    return state.compare_exchange_strong(expected, to, std::memory_order_acq_rel,
                                         std::memory_order_acquire);
  }

 private:
  // Not atomic::wait(): the library's yields the processor a few times before it sleeps, and on a
  // busy machine each yield lets another process run for its whole time slice (docs/perf.md).
  void futex(int operation, uint32_t value) {
    static_assert(sizeof(state) == sizeof(uint32_t) && decltype(state)::is_always_lock_free);
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&state), operation, value, nullptr, nullptr, 0);
  }
};

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // some 40 cycles, where "yield" takes one on most cores
#endif
}

// How long one thread looks at a word before it sleeps. A look that ends in vain halves the time of
// the next one, one that pays doubles it: beside a busy process, where the other thread often does
// not run, looking takes time from the work.
class Patience {
 public:
  explicit Patience(std::chrono::nanoseconds most) : most_(most), next_(most) {}

  // Looks at `slot` until it leaves `state` or the time is up. True when it has left.
  bool see_change(const Slot& slot, State state) {
    if (slot.state.load(std::memory_order_acquire) != state) return true;
    if (most_.count() == 0) return false;
    const bool seen = look(slot, state);
    next_ = seen ? std::min(most_, next_ * 2) : std::max(most_ / kRange, next_ / 2);
    return seen;
  }

 private:
  static constexpr int kRange = 8;
  static constexpr int kLooksPerClock = 16;

  bool look(const Slot& slot, State state) const {
    const auto end = std::chrono::steady_clock::now() + next_;
    do {
      for (int i = 0; i < kLooksPerClock; ++i) {
        relax();
        if (slot.state.load(std::memory_order_acquire) != state) return true;
      }
    } while (std::chrono::steady_clock::now() < end);
    return false;
  }

  std::chrono::nanoseconds most_, next_;
};

// The processors of a thread: sched_getaffinity's mask.
class Processors {
 public:
  // Those the calling thread may use; none when the system does not say.
  static Processors of_this_thread() {
    Processors p;
    p.known_ = sched_getaffinity(0, sizeof(p.mask_), p.mask_.data()) == 0;
    return p;
  }
  int count() const { return known_ ? CPU_COUNT_S(sizeof(mask_), mask_.data()) : 0; }
  // The i-th of them alone.
  Processors one(int i) const {
    Processors p;
    p.known_ = known_;
    for (size_t cpu = 0; cpu < 8 * sizeof(mask_); ++cpu) {
      if (!CPU_ISSET_S(cpu, sizeof(mask_), mask_.data()) || i-- > 0) continue;
      CPU_SET_S(cpu, sizeof(p.mask_), p.mask_.data());
      break;
    }
    return p;
  }
  // Keeps a thread to them. False when the system refuses.
  bool keep(pthread_t thread) const {
    return known_ && pthread_setaffinity_np(thread, sizeof(mask_), mask_.data()) == 0;
  }

 private:
  std::array<cpu_set_t, 8> mask_{};  // 8192 processors; the call fails for a mask too small
  bool known_ = false;
};

}  // namespace

struct ThreadPool::State {
  // Constant after construction.
  int n_threads = 1;
  bool pinned = false;
  Processors callers;  // of the calling thread before it was pinned
  std::chrono::nanoseconds spin{0};

  Patience caller_patience{std::chrono::nanoseconds(0)};

  // Of the call in work. Written before a part is offered, read after it is taken.
  int64_t n = 0;
  int n_parts = 0;
  Task task = nullptr;
  void* context = nullptr;

  std::vector<Slot> slots;  // of workers 1 .. n_threads - 1

  // Last, so that the threads are joined before anything they use goes away.
  std::vector<std::jthread> workers;

  // Part `i`: sizes differ by at most one.
  void run_part(int i) const {
    const int64_t base = n / n_parts, extra = n % n_parts;
    const int64_t begin = i * base + std::min<int64_t>(i, extra);
    task(context, begin, begin + base + (i < extra ? 1 : 0));
  }

  // Sleeps until there is something to look at. A word that is taken back or stopped meanwhile ends
  // the sleep as well, and the caller of this looks again.
  static void wait_for_offer(Slot& slot, Patience& patience) {
    if (patience.see_change(slot, kIdle)) return;
    if (slot.advance(kIdle, kParked)) slot.sleep_while(kParked);
  }

  void work(int i) {
    Slot& slot = slots[static_cast<size_t>(i - 1)];
    Patience patience(spin);
    while (slot.state.load(std::memory_order_acquire) != kStop) {
      if (slot.advance(kOffered, kTaken)) {
        run_part(i);
        slot.set(kIdle, kAwaited);
      } else {
        wait_for_offer(slot, patience);
      }
    }
  }

  void wait_until_done(Slot& slot) {
    if (caller_patience.see_change(slot, kTaken)) return;
    if (slot.advance(kTaken, kAwaited)) slot.sleep_while(kAwaited);
  }
};

ThreadPool::ThreadPool(int n_threads) : ThreadPool(n_threads, kSpin) {}

ThreadPool::ThreadPool(int n_threads, bool pin) : ThreadPool(n_threads, kSpin) {
  if (!pin) return;
  State& s = *state_;
  s.callers = Processors::of_this_thread();
  if (s.callers.count() < s.n_threads) return;
  bool all = s.callers.one(0).keep(pthread_self());
  for (int i = 1; i < s.n_threads; ++i) {
    all = s.callers.one(i).keep(s.workers[static_cast<size_t>(i - 1)].native_handle()) && all;
  }
  if (!all) {
    for (std::jthread& worker : s.workers) (void)s.callers.keep(worker.native_handle());
    (void)s.callers.keep(pthread_self());
  }
  s.pinned = all;
}

ThreadPool::ThreadPool(int n_threads, std::chrono::microseconds spin)
    : state_(std::make_unique<State>()) {
  const int n_processors = available_processors();
  state_->n_threads = n_threads < 1 ? n_processors : n_threads;
  if (state_->n_threads <= n_processors) state_->spin = spin;
  state_->caller_patience = Patience(state_->spin);
  state_->slots = std::vector<Slot>(static_cast<size_t>(state_->n_threads - 1));
  for (int i = 1; i < state_->n_threads; ++i) {
    state_->workers.emplace_back([state = state_.get(), i] { state->work(i); });
  }
}

ThreadPool::~ThreadPool() {
  if (state_->pinned) (void)state_->callers.keep(pthread_self());
  for (Slot& slot : state_->slots) slot.set(kStop, kParked);
}

int ThreadPool::n_threads() const { return state_->n_threads; }
bool ThreadPool::is_pinned() const { return state_->pinned; }

void ThreadPool::run(int64_t n, Task task, void* context) {
  if (n <= 0) return;
  State& s = *state_;
  if (s.n_threads == 1 || n == 1) {
    task(context, 0, n);
    return;
  }
  s.n = n;
  s.n_parts = static_cast<int>(std::min<int64_t>(n, s.n_threads));
  s.task = task;
  s.context = context;
  const std::span<Slot> used(s.slots.data(), static_cast<size_t>(s.n_parts - 1));
  for (Slot& slot : used) slot.set(kOffered, kParked);
  s.run_part(0);
  for (int i = s.n_parts - 1; i > 0; --i) {
    if (used[static_cast<size_t>(i - 1)].advance(kOffered, kIdle)) s.run_part(i);
  }
  for (Slot& slot : used) s.wait_until_done(slot);
}

int available_processors(const std::string& root) {
  int n = std::max(1, Processors::of_this_thread().count());
  if (const auto quota = cpu_quota(root)) {
    n = std::min(n, std::max(1, static_cast<int>(std::ceil(*quota))));
  }
  return n;
}

}  // namespace ds4
