#include "base/control_group.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

namespace ds4 {
namespace {

// Splits at `separator`; with `skip_empty`, runs of it count once.
std::vector<std::string_view> split(std::string_view text, char separator, bool skip_empty) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    const std::string_view part = text.substr(0, end);
    if (!part.empty() || !skip_empty) parts.push_back(part);
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool contains(const std::vector<std::string_view>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

std::optional<int64_t> parse_int(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

std::optional<int64_t> read_int(const std::string& path) {
  const auto text = read_text_file(path);
  return text ? parse_int(*text) : std::nullopt;
}

// The value of "name 123" among the lines of memory.stat; 0 when it is not there.
int64_t stat_value(std::string_view text, std::string_view name) {
  for (std::string_view line : split(text, '\n', true)) {
    if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ' ') {
      return parse_int(line.substr(name.size() + 1)).value_or(0);
    }
  }
  return 0;
}

// A mounted hierarchy: "31 30 0:28 /in /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu" shows the
// group /in of the hierarchy at that mount point.
struct Mount {
  std::string_view root;
  std::string_view point;
};

std::optional<Mount> find_mount(std::string_view mountinfo, int version,
                                std::string_view controller) {
  for (std::string_view line : split(mountinfo, '\n', true)) {
    const size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const auto fields = split(line.substr(0, dash), ' ', true);
    const auto kind = split(line.substr(dash + 3), ' ', true);
    if (fields.size() < 5 || kind.size() < 3) continue;
    if (version == 2 ? kind[0] == "cgroup2"
                     : kind[0] == "cgroup" && contains(split(kind[2], ',', true), controller)) {
      return Mount{fields[3], fields[4]};
    }
  }
  return std::nullopt;
}

// This process's group in the hierarchy: "0::/path" of version 2, "4:cpu,cpuacct:/path" of 1.
std::optional<std::string_view> find_path(std::string_view groups, int version,
                                          std::string_view controller) {
  for (std::string_view line : split(groups, '\n', true)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view names = line.substr(first + 1, second - first - 1);
    if (version == 2 ? line.substr(0, first) == "0" && names.empty()
                     : contains(split(names, ',', true), controller)) {
      return line.substr(second + 1);
    }
  }
  return std::nullopt;
}

// Folders of `path` and its ancestors below the mount. A container often sees only its own part of
// the tree: then the mount's root is a prefix of the path, or the path is not below it at all and
// the mount point is the group.
void add_folders(std::vector<ControlGroup>& out, const std::string& root, const Mount& mount,
                 std::string_view path, int version) {
  if (mount.root != "/") {
    path = path.starts_with(mount.root) ? path.substr(mount.root.size()) : std::string_view("/");
  }
  const std::string base = root + std::string(mount.point);
  while (path.size() > 1) {
    std::string folder = base + std::string(path);
    if (access(folder.c_str(), R_OK) == 0) out.push_back({std::move(folder), version});
    path = path.substr(0, path.rfind('/'));
  }
  out.push_back({base, version});
}

}  // namespace

std::optional<std::string> read_text_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  std::string text;
  char buffer[4096];
  ssize_t n = 0;
  while ((n = ::read(fd, buffer, sizeof(buffer))) > 0) text.append(buffer, static_cast<size_t>(n));
  ::close(fd);
  if (n < 0) return std::nullopt;
  return text;
}

std::vector<ControlGroup> control_groups(std::string_view controller, const std::string& root) {
  std::vector<ControlGroup> found;
  const auto groups = read_text_file(root + "/proc/self/cgroup");
  const auto mounts = read_text_file(root + "/proc/self/mountinfo");
  if (!groups || !mounts) return found;
  for (int version : {2, 1}) {
    const auto mount = find_mount(*mounts, version, controller);
    const auto path = find_path(*groups, version, controller);
    if (mount && path) add_folders(found, root, *mount, *path, version);
  }
  return found;
}

std::optional<double> cpu_quota(const std::string& root) {
  std::optional<double> smallest;
  const auto take = [&](std::optional<int64_t> quota, std::optional<int64_t> period) {
    if (!quota || !period || *quota <= 0 || *period <= 0) return;  // -1 and "max": none
    const double cpus = static_cast<double>(*quota) / static_cast<double>(*period);
    if (!smallest || cpus < *smallest) smallest = cpus;
  };
  for (const ControlGroup& group : control_groups("cpu", root)) {
    if (group.version == 1) {
      take(read_int(group.folder + "/cpu.cfs_quota_us"),
           read_int(group.folder + "/cpu.cfs_period_us"));
    } else if (const auto text = read_text_file(group.folder + "/cpu.max")) {
      const size_t space = text->find(' ');
      if (space == std::string::npos) continue;
      take(parse_int(*text), parse_int(std::string_view(*text).substr(space + 1)));
    }
  }
  return smallest;
}

std::vector<GroupMemory> group_memory(const std::string& root) {
  // Version 1 says "no limit" with the largest number of whole pages.
  constexpr int64_t kUnlimited = int64_t{1} << 62;
  std::vector<GroupMemory> found;
  for (const ControlGroup& group : control_groups("memory", root)) {
    const bool v2 = group.version == 2;
    GroupMemory memory;
    memory.file = group.folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes");
    const auto limit = read_int(memory.file);
    if (!limit || *limit < 0 || *limit >= kUnlimited) continue;
    const int64_t usage =
        read_int(group.folder + (v2 ? "/memory.current" : "/memory.usage_in_bytes")).value_or(0);
    const std::string stat = read_text_file(group.folder + "/memory.stat").value_or("");
    const int64_t file_pages = stat_value(stat, v2 ? "inactive_file" : "total_inactive_file") +
                               stat_value(stat, v2 ? "active_file" : "total_active_file");
    memory.limit_bytes = *limit;
    memory.available_bytes = std::clamp<int64_t>(*limit - usage + file_pages, 0, *limit);
    found.push_back(std::move(memory));
  }
  return found;
}

}  // namespace ds4
