// A step of a warm engine computes and does nothing else: no allocation, no lock, no look at the
// environment, no line of log, in any of its threads. The method is to stand in front of the C
// library (step_counters.cpp) and to watch standard error with the log wide open. First it is shown
// that each of these is seen when it happens.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <thread>

#include "base/log.h"
#include "engine/session.h"
#include "tests/engine/step_counters.h"
#include "tests/support/nano.h"
#include "tests/support/runner.h"

namespace ds4::test {
namespace {

struct Seen {
  StepCounts counts;
  std::string logged;
};

// What `work` did.
template <typename Work>
Seen watch(Work&& work) {
  log::set_level(log::Level::kDebug);
  testing::internal::CaptureStderr();
  start_counting();
  work();
  Seen seen;
  seen.counts = stop_counting();
  seen.logged = testing::internal::GetCapturedStderr();
  log::set_level(log::Level::kWarn);
  return seen;
}

void expect_nothing(const Seen& seen) {
  EXPECT_EQ(seen.counts.allocations, 0);
  EXPECT_EQ(seen.counts.locks, 0);
  EXPECT_EQ(seen.counts.environment, 0);
  EXPECT_EQ(seen.logged, "");
}

template <typename T>
void keep(T* value) {
  asm volatile("" : : "r"(value) : "memory");  // the compiler may not leave the pair out
}

TEST(StepCounters, SeeEveryKindOfAllocation) {
  if (!counts_memory_and_locks()) GTEST_SKIP() << "the sanitizer owns malloc";
  void* memory = nullptr;
  std::vector<int> grown;
  const std::pair<const char*, std::function<void()>> kinds[] = {
      {"malloc", [&] { memory = std::malloc(10); }},
      {"calloc", [&] { memory = std::calloc(2, 5); }},
      {"realloc", [&] { memory = std::realloc(nullptr, 20); }},
      {"aligned_alloc", [&] { memory = std::aligned_alloc(64, 64); }},
      {"posix_memalign", [&] { EXPECT_EQ(posix_memalign(&memory, 64, 64), 0); }},
      {"operator new", [&] { memory = ::operator new(20); }},
      {"a container", [&] { grown.resize(3); }},
  };
  for (const auto& [name, allocate] : kinds) {
    memory = nullptr;
    const Seen seen = watch([&] {
      allocate();
      keep(memory);
    });
    EXPECT_GE(seen.counts.allocations, 1) << name;
    std::free(memory);
  }
  const Seen mapped =
      watch([&] { memory = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); });
  EXPECT_GE(mapped.counts.allocations, 1) << "mmap";
  munmap(memory, 4096);
  expect_nothing(watch([] {}));
}

TEST(StepCounters, SeeLocksOfEveryThread) {
  if (!counts_memory_and_locks()) GTEST_SKIP() << "the sanitizer owns the locks";
  std::mutex mutex;
  std::shared_mutex shared;
  std::condition_variable condition;
  std::atomic<int> go = 0;
  std::jthread other([&] {
    go.wait(0);
    mutex.lock();
    mutex.unlock();
    go = 2;
    go.notify_all();
  });
  const Seen seen = watch([&] {
    go = 1;
    go.notify_all();
    go.wait(1);
    if (mutex.try_lock()) mutex.unlock();
    shared.lock();
    shared.unlock();
    shared.lock_shared();
    shared.unlock_shared();
    condition.notify_one();
    condition.notify_all();
  });
  EXPECT_EQ(seen.counts.locks, 6);
}

TEST(StepCounters, SeeTheEnvironmentAndTheLog) {
  const Seen seen = watch([] {
    keep(std::getenv("HOME"));
    keep(secure_getenv("HOME"));
    log::debug("test", "a line");
  });
  EXPECT_EQ(seen.counts.environment, 2);
  EXPECT_NE(seen.logged.find("a line"), std::string::npos) << seen.logged;
}

struct Case {
  BackendKind backend;
  const char* recipe;
  int n_threads;
};

class DecodeStep : public testing::TestWithParam<Case> {
 protected:
  static constexpr int64_t kChunk = 256, kSteps = 20;
#ifdef DS4_SANITIZED
  static constexpr size_t kLong = 120;  // sanitizers take minutes for more
#else
  // Twenty steps on, position 1024: a window of 128 is complete, and row 256 of the ratio-4 layers
  // is the first of a page.
  static constexpr size_t kLong = 1012;
#endif
  std::unique_ptr<Engine> engine_ =
      must(Engine::create(open_nano(GetParam().recipe), {.backend = GetParam().backend,
                                                         .n_threads = GetParam().n_threads,
                                                         .prefill_chunk_tokens = kChunk,
                                                         .max_sessions = 3}));
  NanoReference reference_ = NanoReference::open();

  Session session() { return must(Session::create(*engine_, {.ctx_tokens = 1200})); }
  std::span<const Token> prompt(size_t n) const {
    return std::span(reference_.prompt("long2048").ids).first(n);
  }
};

TEST_P(DecodeStep, OfOneSessionDoesNothingButCompute) {
  Session s = session();
  must(s.sync(prompt(kLong)));
  const Seen seen = watch([&] {
    for (int64_t i = 0; i < kSteps; ++i) must(s.decode(static_cast<Token>(100 + i)));
  });
  expect_nothing(seen);
  EXPECT_EQ(s.tokens().size(), kLong + kSteps);
}

// Sessions of different lengths: one about to complete a window of 128, one at its beginning.
TEST_P(DecodeStep, OfThreeSessionsDoesNothingButCompute) {
  Session a = session(), b = session(), c = session();
  must(a.sync(prompt(200)));
  must(b.sync(prompt(118)));
  must(c.sync(prompt(2)));
  std::array<Token, 3> tokens = {5, 6, 7};
  std::array<SessionStep, 3> steps;
  Session* sessions[] = {&a, &b, &c};
  for (size_t i = 0; i < 3; ++i) steps[i] = {.session = sessions[i], .tokens = {&tokens[i], 1}};
  must(engine_->step(steps));
  const Seen seen = watch([&] {
    for (int64_t i = 0; i < kSteps; ++i) {
      tokens = {static_cast<Token>(100 + i), static_cast<Token>(200 + i), 300};
      must(engine_->step(steps));
    }
  });
  expect_nothing(seen);
  EXPECT_EQ(b.tokens().size(), 118u + 1 + kSteps);
}

// Scratch is taken when the engine is made: not even the first large step has to grow it.
TEST_P(DecodeStep, TheFirstFullChunkAllocatesNothing) {
  Session s = session();
  must(s.decode(0));
  const SessionStep step{.session = &s, .tokens = prompt(kChunk).subspan(1)};
  const Seen seen = watch([&] { must(engine_->step({&step, 1})); });
  expect_nothing(seen);
}

// A sanitizer has its own allocator and locks, so little is counted there: one backend will do.
#ifdef DS4_SANITIZED
const auto kCases = testing::Values(Case{BackendKind::kCpu, "q8_0", 3});
#else
const auto kCases = testing::Values(
    Case{BackendKind::kCpu, "q8_0", 1}, Case{BackendKind::kCpu, "q8_0", 3},
    Case{BackendKind::kCpu, "q2", 1}, Case{BackendKind::kCpu, "q2", 3},
    Case{BackendKind::kReference, "q8_0", 3}, Case{BackendKind::kReference, "q2", 1});
#endif

INSTANTIATE_TEST_SUITE_P(, DecodeStep, kCases, [](const auto& param) {
  return fmt::format("{}_{}_{}_threads", backend_name(param.param.backend), param.param.recipe,
                     param.param.n_threads);
});

}  // namespace
}  // namespace ds4::test
