// Mapping: bytes, emptiness, moving, and everything that is not a readable file.
#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <string_view>
#include <utility>

#include "tests/base/temp_folder.h"

namespace ds4 {
namespace {

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(MappedFile, ShowsTheBytesAndThePath) {
  const TempFolder folder;
  write_file(folder.file("a"), std::string("hello\0there", 11));
  const auto file = MappedFile::open(folder.file("a"));
  ASSERT_TRUE(file);
  EXPECT_EQ(text_of(*file), std::string_view("hello\0there", 11));
  EXPECT_EQ(file->path(), folder.file("a"));
}

TEST(MappedFile, AnEmptyFileGivesEmptyBytes) {
  const TempFolder folder;
  write_file(folder.file("empty"), "");
  const auto file = MappedFile::open(folder.file("empty"));
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->bytes().empty());
}

// Views into the mapping outlive the object they were taken from, as long as a moved-to one lives.
TEST(MappedFile, MovingKeepsPointersValid) {
  const TempFolder folder;
  write_file(folder.file("a"), "first");
  write_file(folder.file("b"), "second");
  auto a = MappedFile::open(folder.file("a"));
  auto b = MappedFile::open(folder.file("b"));
  ASSERT_TRUE(a && b);
  const std::byte* data = a->bytes().data();
  MappedFile moved = std::move(*a);
  EXPECT_EQ(moved.bytes().data(), data);
  moved = std::move(*b);
  EXPECT_EQ(text_of(moved), "second");
}

// The content stays readable when the name is replaced, which is how model files are renewed.
TEST(MappedFile, SurvivesReplacementByRename) {
  const TempFolder folder;
  write_file(folder.file("a"), "old");
  const auto file = MappedFile::open(folder.file("a"));
  ASSERT_TRUE(file);
  write_file(folder.file("new"), "new");
  std::filesystem::rename(folder.file("new"), folder.file("a"));
  EXPECT_EQ(text_of(*file), "old");
}

TEST(MappedFile, RefusesWhatIsNotAFile) {
  const TempFolder folder;
  const auto missing = MappedFile::open(folder.file("missing"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.error().message.find(folder.file("missing")), std::string::npos);
  const auto directory = MappedFile::open(folder.path());
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(directory.error().message.find("a directory"), std::string::npos);
  // A pipe nobody writes to must not hang the open.
  ASSERT_EQ(mkfifo(folder.file("pipe").c_str(), 0600), 0);
  const auto pipe = MappedFile::open(folder.file("pipe"));
  ASSERT_FALSE(pipe);
  EXPECT_EQ(pipe.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace ds4
