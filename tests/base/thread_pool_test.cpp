// The pool covers every piece exactly once whatever the sizes, and survives being made, used and
// destroyed in quick succession.
#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

namespace ds4 {
namespace {

using std::chrono::microseconds;

TEST(ThreadPool, CoversEveryPieceOnce) {
  for (const int n_threads : {1, 2, 3, 8}) {
    ThreadPool pool(n_threads);
    EXPECT_EQ(pool.n_threads(), n_threads);
    for (const int64_t n : {0, 1, 2, 3, 7, 8, 9, 1000}) {
      SCOPED_TRACE(testing::Message() << n_threads << " threads, n=" << n);
      std::vector<std::atomic<int>> visits(static_cast<size_t>(n));
      std::atomic<int> calls = 0;
      pool.parallel_for(n, [&](int64_t begin, int64_t end) {
        ++calls;
        EXPECT_LT(begin, end);
        for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
      });
      for (const auto& v : visits) EXPECT_EQ(v, 1);
      EXPECT_LE(calls, std::min<int64_t>(n_threads, n));
    }
  }
}

TEST(ThreadPool, PartsDifferByAtMostOnePiece) {
  ThreadPool pool(4);
  std::mutex mutex;
  std::vector<int64_t> sizes;
  pool.parallel_for(10, [&](int64_t begin, int64_t end) {
    const std::scoped_lock lock(mutex);
    sizes.push_back(end - begin);
  });
  std::sort(sizes.begin(), sizes.end());
  EXPECT_EQ(sizes, (std::vector<int64_t>{2, 2, 3, 3}));
}

// The call returns only when all parts are done: what they wrote is visible and final.
TEST(ThreadPool, ReturnsAfterTheLastPart) {
  ThreadPool pool(3);
  std::vector<int64_t> squares(100);
  for (int64_t round = 0; round < 2000; ++round) {
    pool.parallel_for(100, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) squares[static_cast<size_t>(i)] = round + i * i;
    });
    for (int64_t i = 0; i < 100; ++i) ASSERT_EQ(squares[static_cast<size_t>(i)], round + i * i);
  }
}

// Two threads take part: each part waits until the other has begun.
TEST(ThreadPool, TheCallerAndAWorkerTakePart) {
  for (const microseconds spin : {microseconds(0), microseconds(20)}) {
    ThreadPool pool(2, spin);
    std::thread::id ids[2];
    std::atomic<int> begun = 0;
    pool.parallel_for(2, [&](int64_t begin, int64_t) {
      ids[begin] = std::this_thread::get_id();
      ++begun;
      begun.notify_one();
      for (int seen = 1; seen < 2; seen = begun) begun.wait(seen);
    });
    EXPECT_EQ(ids[0], std::this_thread::get_id());
    EXPECT_NE(ids[1], ids[0]);
  }
}

// A worker that the system does not run in time does not hold the call up: the caller computes its
// part. Workers that are busy inside a pool of their own stand for such workers here: of eight
// threads in four pools each part is still computed once.
TEST(ThreadPool, PoolsSideBySideShareTheProcessors) {
  std::atomic<int64_t> total = 0;
  {
    std::vector<std::jthread> callers;
    for (int c = 0; c < 4; ++c) {
      callers.emplace_back([&] {
        ThreadPool pool(8);
        for (int round = 0; round < 200; ++round) {
          pool.parallel_for(11, [&](int64_t begin, int64_t end) { total += end - begin; });
        }
      });
    }
  }
  EXPECT_EQ(total, 4 * 200 * 11);
}

// Gaps between calls that are shorter and longer than the time a worker looks before it sleeps meet
// every state of the hand-over, with and without looking.
TEST(ThreadPool, CallsFindWorkersAwakeAndAsleep) {
  for (const microseconds spin : {microseconds(0), microseconds(20), microseconds(2000)}) {
    ThreadPool pool(2, spin);
    std::vector<int64_t> values(64);
    for (int64_t round = 1; round <= 300; ++round) {
      if (round % 3 == 0) std::this_thread::sleep_for(microseconds(round % 7 * 30));
      pool.parallel_for(64, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) values[static_cast<size_t>(i)] += i;
      });
    }
    for (int64_t i = 0; i < 64; ++i) ASSERT_EQ(values[static_cast<size_t>(i)], 300 * i);
  }
}

TEST(ThreadPool, IsMadeAndDestroyedInQuickSuccession) {
  for (int i = 0; i < 200; ++i) {
    ThreadPool idle(4);
    ThreadPool used(3);
    std::atomic<int64_t> sum = 0;
    used.parallel_for(5, [&](int64_t begin, int64_t end) { sum += end - begin; });
    EXPECT_EQ(sum, 5);
  }
}

TEST(ThreadPool, DefaultsToTheProcessorsOfThisProcess) {
  EXPECT_GE(available_processors(), 1);
  EXPECT_EQ(ThreadPool(0).n_threads(), available_processors());
  EXPECT_EQ(ThreadPool(-1).n_threads(), available_processors());
}

// Pinned threads run on different processors, which are the caller's own; and the caller has all of
// them back when the pool is gone.
TEST(ThreadPool, PinnedThreadsKeepToProcessorsOfTheirOwn) {
  const int n = available_processors();
  cpu_set_t before, during, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  {
    ThreadPool pool(n, /*pin=*/true);
    ASSERT_TRUE(pool.is_pinned());
    ASSERT_EQ(sched_getaffinity(0, sizeof(during), &during), 0);
    EXPECT_EQ(CPU_COUNT(&during), 1);
    std::vector<int64_t> doubled(1000);
    pool.parallel_for(1000, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) doubled[static_cast<size_t>(i)] = 2 * i;
    });
    for (int64_t i = 0; i < 1000; ++i) EXPECT_EQ(doubled[static_cast<size_t>(i)], 2 * i);
  }
  ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

// More threads than processors would wait for each other on one: they stay free.
TEST(ThreadPool, MoreThreadsThanProcessorsAreNotPinned) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  ThreadPool pool(CPU_COUNT(&allowed) + 1, /*pin=*/true);
  EXPECT_FALSE(pool.is_pinned());
  cpu_set_t now;
  ASSERT_EQ(sched_getaffinity(0, sizeof(now), &now), 0);
  EXPECT_TRUE(CPU_EQUAL(&allowed, &now));
}

}  // namespace
}  // namespace ds4
