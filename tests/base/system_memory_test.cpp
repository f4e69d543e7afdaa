// The smallest of machine, groups and process limits, from folders laid out like a machine.
#include "base/system_memory.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/base/temp_folder.h"

namespace ds4 {
namespace {

class SystemMemoryTest : public testing::Test {
 protected:
  TempFolder folder_;

  void write(const std::string& path, const std::string& text) {
    const std::string file = folder_.path() + path;
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    write_file(file, text);
  }
  void SetUp() override {
    write("/proc/meminfo",
          "MemTotal:       8000000 kB\nMemFree:        1000000 kB\nMemAvailable:   6000000 kB\n");
    write("/proc/self/status",
          "Name:\tds4\nVmPeak:\t  900000 kB\nVmSize:\t  800000 kB\nVmData:\t  100000 kB\n");
  }
  SystemMemory read(int64_t mapped_bytes = 0, const ProcessLimits& limits = {}) {
    return system_memory(mapped_bytes, limits, folder_.path());
  }
};

TEST_F(SystemMemoryTest, TheMachineAlone) {
  const SystemMemory memory = read();
  EXPECT_EQ(memory.total_bytes, int64_t{8000000} * 1024);
  EXPECT_EQ(memory.available_bytes, int64_t{6000000} * 1024);
  EXPECT_EQ(memory.source, "MemAvailable of /proc/meminfo");
}

TEST_F(SystemMemoryTest, AnOldKernelSaysWhatIsFree) {
  write("/proc/meminfo", "MemTotal: 8000000 kB\nMemFree: 1000000 kB\n");
  EXPECT_EQ(read().available_bytes, int64_t{1000000} * 1024);
}

TEST_F(SystemMemoryTest, AGroupBelowTheMachineCounts) {
  write("/proc/self/cgroup", "0::/box\n");
  write("/proc/self/mountinfo", "30 22 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  write("/sys/fs/cgroup/box/memory.max", "4294967296");
  write("/sys/fs/cgroup/box/memory.current", "294967296");
  const SystemMemory memory = read();
  EXPECT_EQ(memory.total_bytes, 4294967296);
  EXPECT_EQ(memory.available_bytes, 4000000000);
  EXPECT_EQ(memory.source, "/sys/fs/cgroup/box/memory.max");
}

// What the process has is subtracted, except the mapped model, which the plan counts itself.
TEST_F(SystemMemoryTest, LimitsOfTheProcessCount) {
  const SystemMemory space = read(int64_t{300000} * 1024, {.address_space = 2048000000});
  EXPECT_EQ(space.available_bytes, 2048000000 - int64_t{500000} * 1024);
  EXPECT_EQ(space.source, "address space limit, ulimit -v");
  const SystemMemory data = read(0, {.data = 1024000000});
  EXPECT_EQ(data.available_bytes, 1024000000 - int64_t{100000} * 1024);
  EXPECT_EQ(data.source, "data limit, ulimit -d");
  EXPECT_EQ(read(0, {.data = 1000}).available_bytes, 0);
}

TEST_F(SystemMemoryTest, WithoutFilesNothingIsRefused) {
  const SystemMemory memory = system_memory(0, {}, folder_.path() + "/nowhere");
  EXPECT_GT(memory.available_bytes, int64_t{1} << 60);
}

TEST_F(SystemMemoryTest, ThisMachineHasMemory) {
  const SystemMemory memory = system_memory(0, process_limits());
  EXPECT_GT(memory.available_bytes, 0);
  EXPECT_GE(memory.total_bytes, memory.available_bytes);
}

TEST(ProcField, ReadsOneLineOfManyAndNothingElse) {
  const std::string text =
      "MemTotalX: 3 kB\nMemTotal:  24683620 kB\nBad: kB\nBig: 99999999999999999999 kB";
  EXPECT_EQ(proc_field_bytes(text, "MemTotal"), int64_t{24683620} * 1024);
  EXPECT_EQ(proc_field_bytes(text, "Mem"), std::nullopt);
  EXPECT_EQ(proc_field_bytes(text, "Bad"), std::nullopt);
  EXPECT_EQ(proc_field_bytes(text, "Big"), std::nullopt);
  EXPECT_EQ(proc_field_bytes("", "MemTotal"), std::nullopt);
}

}  // namespace
}  // namespace ds4
