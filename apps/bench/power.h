#pragma once
// What the system tells about this process and the processor's power. Thread-safe.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ds4::bench {

// Memory of this process that is in RAM now; empty where /proc does not say.
std::optional<int64_t> resident_bytes();

// Energy counters of the processor packages (RAPL), read at two points in time. Usually only root
// may read them, and virtual machines have none.
class PowerMeter {
 public:
  // `root`: tests lay out /sys/class/powercap there.
  static PowerMeter start(const std::string& root = "");
  // Mean power of all packages since start(); empty where a counter is missing or wrapped in an
  // unknown range.
  std::optional<double> watts() const;

 private:
  struct Counter {
    std::string path;
    int64_t microjoules = 0;
    int64_t range = 0;  // it starts again at 0 after this; 0: not told
  };
  std::vector<Counter> counters_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace ds4::bench
