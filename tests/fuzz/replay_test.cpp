// Runs the kept corpus through a fuzz target in the ordinary build: inputs that once found
// something, and those that reach the most code, are met again by every `make test`. One program a
// target; DS4_FUZZ_TARGET is its name.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;

// A target that finds something aborts; the file's name, printed before, then says which it was.
TEST(FuzzCorpus, EveryKeptInputRunsThrough) {
  const fs::path folder = DS4_SOURCE_DIR "/tests/fuzz/corpus/" DS4_FUZZ_TARGET;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  ASSERT_GE(files.size(), 10u) << folder;
  for (const fs::path& path : files) {
    std::ifstream file(path, std::ios::binary);
    ASSERT_TRUE(file) << path;
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    std::printf("%s\n", path.filename().c_str());
    std::fflush(stdout);
    // A copy of exactly its size, so that a sanitizer sees the first byte read past the end.
    const std::vector<uint8_t> input(bytes.begin(), bytes.end());
    EXPECT_EQ(LLVMFuzzerTestOneInput(input.data(), input.size()), 0);
  }
}

// Nothing, one byte of each value, and long stretches of one byte: no corpus needs to hold these.
TEST(FuzzCorpus, PlainInputsRunThrough) {
  EXPECT_EQ(LLVMFuzzerTestOneInput(nullptr, 0), 0);
  for (int byte = 0; byte < 256; ++byte) {
    for (const size_t n : {1, 2, 5, 9, 100, 2000}) {
      const std::vector<uint8_t> input(n, static_cast<uint8_t>(byte));
      EXPECT_EQ(LLVMFuzzerTestOneInput(input.data(), input.size()), 0);
    }
  }
}

}  // namespace
