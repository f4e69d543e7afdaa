#include "machine/limits.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/thread_pool.h"
#include "machine/loops.h"
#include "ops/device.h"

namespace ds4::machine {
namespace {

using Clock = std::chrono::steady_clock;

// One round of work for a thread; `amount` is what it does, in 10^9 of the limit's unit.
struct Work {
  double amount = 0;
  std::function<void(int64_t thread)> round;
};

// What keeps the compiler from leaving out a loop whose result nobody needs.
std::atomic<uint64_t> g_result{0};
void keep(uint64_t value) { g_result.fetch_add(value, std::memory_order_relaxed); }

double seconds_of(ThreadPool& pool, const Work& work, int64_t rounds) {
  const Clock::time_point start = Clock::now();
  pool.parallel_for(pool.n_threads(), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t r = 0; r < rounds; ++r) work.round(t);
    }
  });
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Rate measure_rate(ThreadPool& pool, const Options& o, const Work& work) {
  // As many rounds as take the time asked for; finding out warms up.
  int64_t rounds = 1;
  while (seconds_of(pool, work, rounds) < o.seconds) rounds *= 2;
  std::vector<double> rates;
  for (int i = 0; i < std::max(1, o.repeat); ++i) {
    const double seconds = seconds_of(pool, work, rounds);
    rates.push_back(work.amount * static_cast<double>(rounds) * pool.n_threads() / seconds);
  }
  std::ranges::sort(rates);
  return {.best = rates.back(), .median = rates[rates.size() / 2]};
}

// Memory that threads walk through piece by piece, each in its own part, so that no cache holds
// what is read next.
class Walk {
 public:
  // Touched by the thread that will read it. Not zeros: such pages the system may share.
  Walk(std::byte* data, int64_t bytes, ThreadPool& pool) : data_(data) {
    part_ = bytes / pool.n_threads() / kPage * kPage;
    piece_ = std::min(part_, int64_t{8} << 20);
    next_.resize(static_cast<size_t>(pool.n_threads()));
    pool.parallel_for(pool.n_threads(), [&](int64_t begin, int64_t end) {
      std::memset(data + begin * part_, 3, static_cast<size_t>((end - begin) * part_));
    });
  }
  static constexpr int64_t kPage = 4096;

  Work work() {
    return {static_cast<double>(piece_) * 1e-9, [this](int64_t t) {
              int64_t& at = next_[static_cast<size_t>(t)].at;
              keep(read_bytes(data_ + t * part_ + at, piece_));
              at = at + 2 * piece_ <= part_ ? at + piece_ : 0;
            }};
  }

 private:
  struct alignas(64) Place {  // no two threads write to one cache line
    int64_t at = 0;
  };
  std::byte* data_;
  int64_t part_ = 0, piece_ = 0;
  std::vector<Place> next_;
};

struct Measurer {
  const Options& options;
  ThreadPool one, all;

  bool stop(const char* what) const { return options.before && options.before(what); }

  // False when it was stopped.
  bool measure(const char* what, Limit& limit, const Work& work, const Work& work_all) {
    if (stop(what)) return false;
    limit.one = measure_rate(one, options, work);
    if (stop(what)) return false;
    limit.all = all.n_threads() == 1 ? limit.one : measure_rate(all, options, work_all);
    return true;
  }
  bool measure(const char* what, Limit& limit, const Work& work) {
    return measure(what, limit, work, work);
  }
};

Result<void> measure_memory(Measurer& m, bool large, Limit& limit) {
  constexpr int64_t kLargePage = int64_t{2} << 20;
  const int64_t bytes =
      std::max(m.options.memory_bytes, m.all.n_threads() * Walk::kPage) / Walk::kPage * Walk::kPage;
  HostDevice device("");
  DS4_TRY(const Buffer memory, device.allocate(bytes + kLargePage));
  std::byte* const data =
      memory.data() + (kLargePage - reinterpret_cast<uintptr_t>(memory.data()) % kLargePage);
  // Where the system does not know the advice, memory is what it is.
  (void)::madvise(data, static_cast<size_t>(bytes), large ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  Walk all(data, bytes, m.all);
  Walk one(data, bytes, m.one);
  if (m.measure(large ? "memory reads, large pages" : "memory reads", limit, one.work(),
                all.work())) {
    return {};
  }
  return fail(ErrorCode::kCancelled, "interrupted");
}

}  // namespace

Result<Limits> measure(const Options& o) {
  Measurer m{o, ThreadPool(1), ThreadPool(o.n_threads)};
  Limits limits;
  limits.target = target_name();
  limits.n_threads = m.all.n_threads();
  DS4_TRY_VOID(measure_memory(m, false, limits.memory_read));
  DS4_TRY_VOID(measure_memory(m, true, limits.memory_read_large));

  const int64_t cache_bytes = std::max<int64_t>(2, o.cache_bytes / 4096) * 4096;
  static_assert(kOperandBytes <= 2 * 4096);
  HostDevice device("");
  DS4_TRY(const Buffer cache, device.allocate(limits.n_threads * cache_bytes));
  std::memset(cache.data(), 1, static_cast<size_t>(cache.size_bytes()));
  const auto own = [&](int64_t t) { return cache.data() + t * cache_bytes; };
  // Many passes at a time, so that only the loop counts.
  constexpr int64_t kPasses = 100;
  const bool done =
      m.measure("cache reads", limits.cache_read,
                {static_cast<double>(cache_bytes) * 1e-9,
                 [&](int64_t t) { keep(read_bytes(own(t), cache_bytes)); }}) &&
      m.measure(
          "int8 multiply-adds", limits.int8,
          {kPasses * kInt8PerRound * 1e-9,
           [&](int64_t t) { keep(static_cast<uint64_t>(int8_multiply_adds(own(t), kPasses))); }}) &&
      m.measure("f32 multiply-adds", limits.f32,
                {kPasses * kF32PerRound * 1e-9, [&](int64_t t) {
                   keep(static_cast<uint64_t>(f32_multiply_adds(own(t), kPasses) != 0));
                 }});
  if (!done) return fail(ErrorCode::kCancelled, "interrupted");
  return limits;
}

}  // namespace ds4::machine
