#pragma once
// What the control groups (Linux cgroups, versions 1 and 2) of this process allow it. A container
// or a service manager sets such limits, and /proc/meminfo and the affinity mask do not show them.
//
// A limit of any ancestor binds, so every group from the process's own up to the top of the mount
// is read; what cannot be read counts as no limit. Thread-safe.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ds4 {

struct ControlGroup {
  std::string folder;  // where the limit files are
  int version = 2;
};

// Groups of this process that may hold limits of `controller` ("memory", "cpu"), innermost first,
// version 2 before version 1. From /proc/self/cgroup and /proc/self/mountinfo; `root` stands in
// front of every path that is read, so that a test can lay out a machine in a folder.
std::vector<ControlGroup> control_groups(std::string_view controller, const std::string& root = "");

// Processors' worth of time per period, the smallest quota of all groups: cpu.max of version 2,
// cpu.cfs_quota_us / cpu.cfs_period_us of version 1. Empty when nothing limits it.
std::optional<double> cpu_quota(const std::string& root = "");

// One memory limit: how much of it is left, and which file says so.
struct GroupMemory {
  int64_t limit_bytes = 0;
  int64_t available_bytes = 0;  // limit - usage + file pages that the system can drop
  std::string file;             // ".../memory.max"
};

// Every limit of the process's groups: memory.max, memory.current and memory.stat of version 2,
// memory.limit_in_bytes, memory.usage_in_bytes and memory.stat of version 1.
std::vector<GroupMemory> group_memory(const std::string& root = "");

// A whole small text file; empty when it cannot be read. For /proc and /sys.
std::optional<std::string> read_text_file(const std::string& path);

}  // namespace ds4
