// Random sessions for a given time, with another seed every 500 operations. Prints what it did and
// the memory it took; exit 1 at the first difference.
//   session_soak SECONDS [FIRST_SEED]
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "tests/engine/random_sessions.h"

namespace {

int64_t peak_kib() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

int soak(double seconds, uint32_t seed) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  int64_t n_steps = 0, n_reused = 0, first_peak = 0;
  uint32_t n_seeds = 0;
  while (std::chrono::duration<double>(Clock::now() - start).count() < seconds) {
    ds4::test::RandomSessions sessions(ds4::BackendKind::kCpu, seed + n_seeds, 700);
    while (sessions.n_steps() < 500) {
      const std::string wrong = sessions.step();
      if (!wrong.empty()) {
        fmt::print(stderr, "seed {}: {}\n", seed + n_seeds, wrong);
        return 1;
      }
    }
    n_steps += sessions.n_steps();
    n_reused += sessions.n_reused();
    ++n_seeds;
    if (n_seeds == 1) first_peak = peak_kib();
    fmt::print(
        "{} seeds, {} operations, {} tokens reused, 0 differences; peak {} KiB ({} after the "
        "first seed)\n",
        n_seeds, n_steps, n_reused, peak_kib(), first_peak);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || std::atof(argv[1]) <= 0) {
    std::fprintf(stderr, "usage: session_soak SECONDS [FIRST_SEED]\n");
    return 2;
  }
  try {
    return soak(std::atof(argv[1]), argc > 2 ? static_cast<uint32_t>(std::atol(argv[2])) : 1);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "session_soak: %s\n", e.what());
    return 1;
  }
}
