// The pool covers every piece exactly once whatever the sizes, and survives being made, used and
// destroyed in quick succession.
#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace ds4 {
namespace {

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

TEST(ThreadPool, TheCallerTakesPart) {
  ThreadPool pool(2);
  std::mutex mutex;
  std::set<std::thread::id> ids;
  pool.parallel_for(2, [&](int64_t, int64_t) {
    const std::scoped_lock lock(mutex);
    ids.insert(std::this_thread::get_id());
  });
  EXPECT_TRUE(ids.contains(std::this_thread::get_id()));
  EXPECT_EQ(ids.size(), 2u);
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

}  // namespace
}  // namespace ds4
