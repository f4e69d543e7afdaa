#include "power.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "base/system_memory.h"

namespace ds4::bench {
namespace {

namespace fs = std::filesystem;

std::optional<int64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

// Packages are intel-rapl:0, intel-rapl:1, ...; a second colon is a part of one.
bool is_package(const std::string& name) {
  return name.starts_with("intel-rapl:") && name.find(':') == name.rfind(':');
}

}  // namespace

std::optional<int64_t> resident_bytes() {
  std::stringstream text;
  text << std::ifstream("/proc/self/status").rdbuf();
  return proc_field_bytes(text.str(), "VmRSS");
}

PowerMeter PowerMeter::start(const std::string& root) {
  PowerMeter meter;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(root + "/sys/class/powercap", none)) {
    if (!is_package(entry.path().filename().string())) continue;
    const fs::path counter = entry.path() / "energy_uj";
    const auto energy = number_in(counter);
    if (!energy) continue;
    meter.counters_.push_back(
        {.path = counter.string(),
         .microjoules = *energy,
         .range = number_in(entry.path() / "max_energy_range_uj").value_or(0)});
  }
  meter.start_ = std::chrono::steady_clock::now();
  return meter;
}

std::optional<double> PowerMeter::watts() const {
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  int64_t used = 0;
  for (const Counter& counter : counters_) {
    const auto now = number_in(counter.path);
    if (!now) return std::nullopt;
    int64_t more = *now - counter.microjoules;
    if (more < 0 && counter.range == 0) return std::nullopt;
    if (more < 0) more += counter.range;
    used += more;
  }
  if (counters_.empty() || seconds <= 0) return std::nullopt;
  return static_cast<double>(used) * 1e-6 / seconds;
}

}  // namespace ds4::bench
