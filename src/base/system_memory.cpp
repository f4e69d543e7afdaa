#include "base/system_memory.h"

#include <algorithm>
#include <charconv>

#include "base/control_group.h"

namespace ds4 {
namespace {

void take_smaller(SystemMemory& memory, int64_t total, int64_t available,
                  const std::string& source) {
  memory.total_bytes = std::min(memory.total_bytes, total);
  if (available >= memory.available_bytes) return;
  memory.available_bytes = std::max<int64_t>(available, 0);
  memory.source = source;
}

int64_t as_bytes(rlim_t limit) {
  return static_cast<int64_t>(std::min<rlim_t>(limit, INT64_MAX / 2));
}

}  // namespace

std::optional<int64_t> proc_field_bytes(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ':') continue;
    const size_t digits = line.find_first_of("0123456789");
    if (digits == std::string_view::npos) return std::nullopt;
    int64_t kib = 0;
    const auto [end, error] = std::from_chars(line.data() + digits, line.data() + line.size(), kib);
    if (error != std::errc() || kib > INT64_MAX / 1024) return std::nullopt;
    return kib * 1024;
  }
  return std::nullopt;
}

ProcessLimits process_limits() {
  ProcessLimits limits;
  rlimit value{};
  if (getrlimit(RLIMIT_AS, &value) == 0) limits.address_space = value.rlim_cur;
  if (getrlimit(RLIMIT_DATA, &value) == 0) limits.data = value.rlim_cur;
  return limits;
}

SystemMemory system_memory(int64_t mapped_bytes, const ProcessLimits& limits,
                           const std::string& root) {
  SystemMemory memory{.total_bytes = INT64_MAX / 2,
                      .available_bytes = INT64_MAX / 2,
                      .source = "nothing known about this machine"};
  const std::string info = read_text_file(root + "/proc/meminfo").value_or("");
  const auto total = proc_field_bytes(info, "MemTotal");
  // Kernels before 3.14 do not say what is available.
  auto available = proc_field_bytes(info, "MemAvailable");
  if (!available) available = proc_field_bytes(info, "MemFree");
  if (total && available) take_smaller(memory, *total, *available, "MemAvailable of /proc/meminfo");
  for (const GroupMemory& group : group_memory(root)) {
    take_smaller(memory, group.limit_bytes, group.available_bytes, group.file.substr(root.size()));
  }
  const std::string status = read_text_file(root + "/proc/self/status").value_or("");
  if (limits.address_space != RLIM_INFINITY) {
    const int64_t used = proc_field_bytes(status, "VmSize").value_or(0) - mapped_bytes;
    take_smaller(memory, as_bytes(limits.address_space), as_bytes(limits.address_space) - used,
                 "address space limit, ulimit -v");
  }
  if (limits.data != RLIM_INFINITY) {
    // Mapped files do not count here, so the plan's file bytes do not need room.
    const int64_t used = proc_field_bytes(status, "VmData").value_or(0) - mapped_bytes;
    take_smaller(memory, as_bytes(limits.data), as_bytes(limits.data) - used,
                 "data limit, ulimit -d");
  }
  return memory;
}

}  // namespace ds4
