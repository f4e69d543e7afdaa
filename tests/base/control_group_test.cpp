// Limits of control groups, read from folders laid out like the machines they come from. The oracle
// is what was written into the files.
#include "base/control_group.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/thread_pool.h"
#include "tests/base/temp_folder.h"

namespace ds4 {
namespace {

// A machine's /proc and /sys in a folder.
class ControlGroupTest : public testing::Test {
 protected:
  TempFolder folder_;
  const std::string root_ = folder_.path();

  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }
  void machine(const std::string& groups, const std::string& mounts) {
    write("/proc/self/cgroup", groups);
    write("/proc/self/mountinfo", mounts);
  }
  void machine_v2(const std::string& path = "/user.slice/run") {
    machine("0::" + path + "\n",
            "22 1 0:21 / /proc rw - proc proc rw\n"
            "30 22 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  void machine_v1() {
    machine("9:name=systemd:/\n4:memory:/jobs/one\n2:cpu,cpuacct:/jobs/one\n0::/\n",
            "31 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpuacct,cpu\n"
            "34 30 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
            "40 30 0:37 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  }
};

TEST_F(ControlGroupTest, TheSmallestQuotaOfAllAncestorsCounts) {
  machine_v2();
  write("/sys/fs/cgroup/user.slice/run/cpu.max", "max 100000\n");
  write("/sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n");
  EXPECT_EQ(cpu_quota(root_), 1.5);
  write("/sys/fs/cgroup/user.slice/run/cpu.max", "25000 100000\n");
  EXPECT_EQ(cpu_quota(root_), 0.25);
}

TEST_F(ControlGroupTest, ReadsTheQuotaOfVersion1) {
  machine_v1();
  write("/sys/fs/cgroup/cpu,cpuacct/jobs/one/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu,cpuacct/jobs/one/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(root_), std::nullopt);
  write("/sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us", "300000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_period_us", "200000\n");
  EXPECT_EQ(cpu_quota(root_), 1.5);
}

// A quota is rounded up, and the affinity mask still counts.
TEST_F(ControlGroupTest, AvailableProcessorsIsTheQuotaRoundedUp) {
  machine_v2();
  const int all = available_processors(root_);
  EXPECT_GE(all, 1);
  const std::pair<const char*, int> cases[] = {
      {"25000 100000", 1}, {"100000 100000", 1}, {"110000 100000", 2}, {"6400000 100000", 64}};
  for (const auto& [text, quota] : cases) {
    write("/sys/fs/cgroup/user.slice/cpu.max", text);
    EXPECT_EQ(available_processors(root_), std::min(all, quota)) << text;
  }
}

TEST_F(ControlGroupTest, MemoryLimitsOfVersion2CountFilePagesAsAvailable) {
  machine_v2();
  const std::string run = "/sys/fs/cgroup/user.slice/run";
  write(run + "/memory.max", "max\n");
  write("/sys/fs/cgroup/user.slice/memory.max", "4294967296\n");
  write("/sys/fs/cgroup/user.slice/memory.current", "3000000000\n");
  write("/sys/fs/cgroup/user.slice/memory.stat",
        "anon 900000000\nfile 2000000000\ninactive_file 1500000000\nactive_file 400000000\n");
  const auto limits = group_memory(root_);
  ASSERT_EQ(limits.size(), 1u);
  EXPECT_EQ(limits[0].limit_bytes, 4294967296);
  EXPECT_EQ(limits[0].available_bytes, 4294967296 - 3000000000 + 1900000000);
  EXPECT_EQ(limits[0].file, root_ + "/sys/fs/cgroup/user.slice/memory.max");
}

TEST_F(ControlGroupTest, MemoryLimitsOfVersion1NameTheirFiles) {
  machine_v1();
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "2147483648\n");
  write("/sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", "5000000000\n");
  write("/sys/fs/cgroup/memory/jobs/one/memory.limit_in_bytes", "1073741824\n");
  write("/sys/fs/cgroup/memory/jobs/one/memory.usage_in_bytes", "1000000\n");
  write("/sys/fs/cgroup/memory/jobs/one/memory.stat",
        "inactive_file 5\ntotal_inactive_file 1000\ntotal_active_file 24\n");
  const auto limits = group_memory(root_);
  ASSERT_EQ(limits.size(), 2u) << "the top has no limit";
  EXPECT_EQ(limits[0].limit_bytes, 1073741824);
  EXPECT_EQ(limits[0].available_bytes, 1073741824 - 1000000 + 1024);
  EXPECT_EQ(limits[1].available_bytes, 0) << "more in use than allowed";
}

// A container without a cgroup namespace sees a path that begins above its mount; one with a
// foreign path sees its own group at the mount point.
TEST_F(ControlGroupTest, FindsTheGroupFromInsideAContainer) {
  const std::string mounts =
      "30 22 0:27 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw\nnonsense\n";
  machine("0::/docker/abc/inner\n", mounts);
  write("/sys/fs/cgroup/inner/memory.max", "2000\n");
  write("/sys/fs/cgroup/memory.max", "1000\n");
  ASSERT_EQ(group_memory(root_).size(), 2u);
  EXPECT_EQ(group_memory(root_)[0].limit_bytes, 2000);
  machine("0::/elsewhere\n", mounts);
  ASSERT_EQ(group_memory(root_).size(), 1u);
  EXPECT_EQ(group_memory(root_)[0].limit_bytes, 1000);
}

TEST_F(ControlGroupTest, WhatCannotBeReadIsNoLimit) {
  EXPECT_EQ(cpu_quota(root_), std::nullopt);
  EXPECT_TRUE(group_memory(root_).empty());
  machine_v2();
  write("/sys/fs/cgroup/user.slice/cpu.max", "garbage");
  write("/sys/fs/cgroup/user.slice/memory.max", "");
  EXPECT_EQ(cpu_quota(root_), std::nullopt);
  EXPECT_TRUE(group_memory(root_).empty());
  (void)group_memory();  // this machine's own files: whatever they say, no crash
}

}  // namespace
}  // namespace ds4
