#pragma once
// How much memory this process may still take, and what says so: the machine (/proc/meminfo), the
// control groups it is in, and its own resource limits. The smallest counts. Thread-safe.
#include <sys/resource.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ds4 {

struct SystemMemory {
  int64_t total_bytes = 0;      // of the machine, or the smallest limit below that
  int64_t available_bytes = 0;  // of it, what can still be taken without pushing anything out
  std::string source;  // what `available_bytes` comes from: "MemAvailable", a file, a limit
};

// What setrlimit allows and what this process has already; RLIM_INFINITY: no limit.
struct ProcessLimits {
  rlim_t address_space = RLIM_INFINITY;  // RLIMIT_AS
  rlim_t data = RLIM_INFINITY;           // RLIMIT_DATA
};
ProcessLimits process_limits();

// Reads below `root` (tests lay out a machine there): /proc/meminfo, /proc/self/status and what
// base/control_group.h reads. `mapped_bytes` are file bytes this process has mapped and that the
// caller's plan will count: they are given back to what the address space has left.
// Where /proc/meminfo cannot be read nothing is known: both figures are INT64_MAX / 2.
SystemMemory system_memory(int64_t mapped_bytes, const ProcessLimits& limits,
                           const std::string& root = "");

// The bytes of "MemAvailable:   23867076 kB" among the lines of a /proc file.
std::optional<int64_t> proc_field_bytes(std::string_view text, std::string_view name);

}  // namespace ds4
