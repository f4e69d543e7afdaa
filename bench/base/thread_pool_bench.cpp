// What it costs to hand work to the pool's threads: calls of parallel_for with a part of known
// length for every thread, and a gap between calls in which the caller works alone, as ops of a
// decode step have it. A pool that looks for work for a while is quick after short gaps and in the
// way of others; so each case is measured alone and beside one busy process for each two threads.
//   thread_pool_bench [--benchmark_filter='part:10/']
//
// `median_us` and `p95_us` are of a call, by the wall clock; `overhead_us` is the median without
// the part, which every thread has one of. A thread that is not running when its part comes costs
// time too, and counts here.
#include <benchmark/benchmark.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"

namespace ds4 {
namespace {

using Clock = std::chrono::steady_clock;
using Micro = std::chrono::duration<double, std::micro>;

void work_for(double us) {
  const Clock::time_point start = Clock::now();
  while (Micro(Clock::now() - start).count() < us) {
  }
}

// A process that computes until this object is gone.
class BusyProcess {
 public:
  BusyProcess() : pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (true) work_for(1e6);
  }
  ~BusyProcess() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  BusyProcess(const BusyProcess&) = delete;
  BusyProcess& operator=(const BusyProcess&) = delete;

 private:
  const pid_t pid_;
};

double percentile(std::vector<double>& values, double share) {
  const auto at = values.begin() +
                  static_cast<std::ptrdiff_t>(share * static_cast<double>(std::ssize(values) - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

void hand_over(benchmark::State& state, int n_threads, double part_us, double gap_us, bool busy) {
  std::vector<std::unique_ptr<BusyProcess>> others;
  for (int i = 0; busy && i < std::max(1, n_threads / 2); ++i) {
    others.push_back(std::make_unique<BusyProcess>());
  }
  ThreadPool pool(n_threads);
  std::vector<double> calls;
  for (auto _ : state) {
    work_for(gap_us);
    const Clock::time_point start = Clock::now();
    pool.parallel_for(n_threads, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) work_for(part_us);
    });
    calls.push_back(Micro(Clock::now() - start).count());
    state.SetIterationTime(calls.back() * 1e-6);
  }
  const double median = percentile(calls, 0.5);
  state.counters["median_us"] = median;
  state.counters["overhead_us"] = median - part_us;
  state.counters["p95_us"] = percentile(calls, 0.95);
}

void add_benchmarks() {
  const int n_threads = std::max(2, available_processors());
  for (const bool busy : {false, true}) {
    for (const int part : {0, 10, 50}) {
      for (const int gap : {0, 10, 50, 200}) {
        const std::string name = std::string(busy ? "beside_others" : "alone") +
                                 "/threads:" + std::to_string(n_threads) +
                                 "/part:" + std::to_string(part) + "/gap:" + std::to_string(gap);
        benchmark::RegisterBenchmark(
            name.c_str(),
            [=](benchmark::State& state) { hand_over(state, n_threads, part, gap, busy); })
            ->UseManualTime()
            ->MinTime(0.1);
      }
    }
  }
}

}  // namespace
}  // namespace ds4

int main(int argc, char** argv) {
  ds4::add_benchmarks();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
