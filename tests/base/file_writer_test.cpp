// A written file is whole or not there: commit, abandonment, collisions, and a disk that runs full.
#include "base/file_writer.h"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/base/temp_folder.h"

namespace ds4 {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(FileWriter, TheFileAppearsAtCommit) {
  const TempFolder folder;
  {
    auto writer = FileWriter::create(folder.file("out"), false);
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->write(bytes_of("hello ")));
    ASSERT_TRUE(writer->write(bytes_of("world")));
    EXPECT_EQ(writer->position(), 11);
    EXPECT_FALSE(std::filesystem::exists(folder.file("out")));
    ASSERT_TRUE(writer->commit());
  }
  EXPECT_EQ(read_file(folder.file("out")), "hello world");
  EXPECT_EQ(folder.n_entries(), 1);
}

TEST(FileWriter, AnAbandonedWriterLeavesNothing) {
  const TempFolder folder;
  write_file(folder.file("out"), "before");
  {
    auto writer = FileWriter::create(folder.file("out"), true);
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->write(bytes_of("half")));
    FileWriter moved = std::move(*writer);
    ASSERT_TRUE(moved.write(bytes_of("way")));
  }
  EXPECT_EQ(read_file(folder.file("out")), "before");
  EXPECT_EQ(folder.n_entries(), 1);
}

TEST(FileWriter, OverwritesOnlyWhenAsked) {
  const TempFolder folder;
  write_file(folder.file("out"), "before");
  const auto refused = FileWriter::create(folder.file("out"), false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find(folder.file("out")), std::string::npos);
  auto writer = FileWriter::create(folder.file("out"), true);
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->write(bytes_of("after")));
  ASSERT_TRUE(writer->commit());
  EXPECT_EQ(read_file(folder.file("out")), "after");
}

TEST(FileWriter, RefusesPlacesThatCannotHoldAFile) {
  const TempFolder folder;
  const auto directory = FileWriter::create(folder.path(), true);
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().code, ErrorCode::kInvalidArgument);
  const auto nowhere = FileWriter::create(folder.file("missing/out"), true);
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, ErrorCode::kIo);
}

// Expert workers write their slices of one planned file at once.
TEST(FileWriter, DisjointRangesAreWrittenFromSeveralThreads) {
  const TempFolder folder;
  auto writer = FileWriter::create(folder.file("out"), false);
  ASSERT_TRUE(writer);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&writer, t] {
        const std::string part(1000, static_cast<char>('a' + t));
        for (int i = t; i < 40; i += 4) EXPECT_TRUE(writer->write_at(1000 * i, bytes_of(part)));
      });
    }
  }
  EXPECT_EQ(writer->position(), 0);
  ASSERT_TRUE(writer->commit());
  const std::string text = read_file(folder.file("out"));
  ASSERT_EQ(text.size(), 40000u);
  for (size_t i = 0; i < text.size(); ++i) {
    ASSERT_EQ(text[i], static_cast<char>('a' + i / 1000 % 4)) << i;
  }
}

// A file-size limit stands in for a full disk where mounting is not allowed: the write is cut
// short, then refused. The error must name the file, and the final name must not appear.
TEST(FileWriter, AWriteThatDoesNotFitIsAnErrorAndLeavesNothing) {
  const TempFolder folder;
  struct rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit small = before;
  small.rlim_cur = 64 * 1024;
  const auto previous_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  {
    auto writer = FileWriter::create(folder.file("out"), false);
    ASSERT_TRUE(writer);
    const auto written = writer->write(bytes_of(std::string(100 * 1024, 'x')));
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, ErrorCode::kIo);
    EXPECT_NE(written.error().message.find(folder.file("out")), std::string::npos);
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, previous_handler);
  EXPECT_EQ(folder.n_entries(), 0);
}

TEST(FileWriter, AFullDiskIsAnErrorAndLeavesNothing) {
  const TempFolder folder;
  if (mount("ds4-test", folder.path().c_str(), "tmpfs", 0, "size=64k") != 0) {
    GTEST_SKIP() << "needs the right to mount a tmpfs";
  }
  {
    auto writer = FileWriter::create(folder.file("out"), false);
    EXPECT_TRUE(writer);
    const auto written = writer->write(bytes_of(std::string(100 * 1024, 'x')));
    EXPECT_FALSE(written);
    if (!written) {
      EXPECT_EQ(written.error().code, ErrorCode::kIo);
      EXPECT_NE(written.error().message.find("No space left"), std::string::npos);
    }
  }
  EXPECT_EQ(folder.n_entries(), 0);
  EXPECT_EQ(umount(folder.path().c_str()), 0);
}

}  // namespace
}  // namespace ds4
