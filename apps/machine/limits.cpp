#include "machine/limits.h"

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

// One piece of work: `work(thread, rounds)` is `amount` units (10^9) a round and thread.
struct Work {
  double amount = 0;
  std::function<void(int64_t thread, int64_t rounds)> work;
};

double seconds_of(ThreadPool& pool, int n_threads, const Work& work, int64_t rounds) {
  const Clock::time_point start = Clock::now();
  pool.parallel_for(n_threads, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) work.work(t, rounds);
  });
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Rate measure_rate(ThreadPool& pool, int n_threads, const Options& o, const Work& work) {
  // As many rounds as take the time asked for; finding out warms up.
  int64_t rounds = 1;
  while (true) {
    const double seconds = seconds_of(pool, n_threads, work, rounds);
    if (seconds >= o.seconds) break;
    rounds = seconds < o.seconds / 8
                 ? rounds * 8
                 : static_cast<int64_t>(static_cast<double>(rounds) * o.seconds / seconds) + 1;
  }
  std::vector<double> rates;
  for (int i = 0; i < std::max(1, o.repeat); ++i) {
    const double seconds = seconds_of(pool, n_threads, work, rounds);
    rates.push_back(work.amount * static_cast<double>(rounds) * n_threads / seconds);
  }
  std::ranges::sort(rates);
  return {.best = rates.back(), .median = rates[rates.size() / 2]};
}

// What keeps the compiler from leaving out a loop whose result nobody needs.
std::atomic<uint64_t> g_result{0};

}  // namespace

Result<Limits> measure(const Options& o) {
  Limits limits;
  limits.target = target_name();
  limits.n_threads = o.n_threads < 1 ? available_processors() : o.n_threads;
  ThreadPool one(1), all(limits.n_threads);
  const int64_t n = limits.n_threads;
  const auto aligned = [](int64_t bytes) { return std::max<int64_t>(64, bytes / 64 * 64); };
  const int64_t memory_bytes = aligned(o.memory_bytes), cache_bytes = aligned(o.cache_bytes);
  HostDevice device("");
  DS4_TRY(const Buffer memory, device.allocate(memory_bytes));
  DS4_TRY(const Buffer cache, device.allocate(n * (cache_bytes + kOperandBytes)));
  // Touched by the thread that will read it; other values than zero, whose pages the system may
  // share.
  const int64_t part = aligned(memory_bytes / n);
  all.parallel_for(n, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t bytes = std::min(part, memory_bytes - t * part);
      if (bytes > 0) std::memset(memory.data() + t * part, 3, static_cast<size_t>(bytes));
    }
  });
  std::memset(cache.data(), 1, static_cast<size_t>(cache.size_bytes()));
  const auto operands = [&](int64_t t) {
    return cache.data() + n * cache_bytes + t * kOperandBytes;
  };

  const auto keep = [](auto value) { g_result += static_cast<uint64_t>(value); };
  const auto read = [&](const std::byte* data, int64_t bytes) {
    return [=](int64_t t, int64_t rounds) {
      for (int64_t r = 0; r < rounds; ++r) keep(read_bytes(data + t * bytes, bytes));
    };
  };
  const auto gigabytes = [](int64_t bytes) { return static_cast<double>(bytes) * 1e-9; };
  const struct {
    const char* what;
    Limit* limit;
    Work one, all;
  } parts[] = {
      {"memory reads",
       &limits.memory_read,
       {gigabytes(memory_bytes), read(memory.data(), memory_bytes)},
       {gigabytes(part), read(memory.data(), part)}},
      {"cache reads",
       &limits.cache_read,
       {gigabytes(cache_bytes), read(cache.data(), cache_bytes)},
       {gigabytes(cache_bytes), read(cache.data(), cache_bytes)}},
      {"int8 multiply-adds",
       &limits.int8,
       {kInt8PerRound * 1e-9,
        [&](int64_t t, int64_t rounds) { keep(int8_multiply_adds(operands(t), rounds)); }},
       {}},
      {"f32 multiply-adds",
       &limits.f32,
       {kF32PerRound * 1e-9,
        [&](int64_t t, int64_t rounds) { keep(f32_multiply_adds(operands(t), rounds)); }},
       {}},
  };
  for (const auto& part_of : parts) {
    const Work& all_work = part_of.all.work ? part_of.all : part_of.one;
    for (const bool alone : {true, false}) {
      if (o.before && o.before(part_of.what)) return fail(ErrorCode::kCancelled, "interrupted");
      if (alone) {
        part_of.limit->one = measure_rate(one, 1, o, part_of.one);
      } else {
        part_of.limit->all = limits.n_threads == 1
                                 ? part_of.limit->one
                                 : measure_rate(all, limits.n_threads, o, all_work);
      }
    }
  }
  return limits;
}

}  // namespace ds4::machine
