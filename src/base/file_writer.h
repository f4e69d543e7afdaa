#pragma once
// Writes a file that appears under its final name whole or not at all: bytes go to a temporary name
// beside it, commit() syncs and renames, and destruction without commit() removes the temporary.
// Single-thread, except write_at(), which may be called from several threads for disjoint ranges.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace ds4 {

class FileWriter {
 public:
  FileWriter(FileWriter&& other) noexcept;
  FileWriter& operator=(FileWriter&& other) noexcept;
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  ~FileWriter();

  // Errors: kIo with the path and the system's reason; kInvalidArgument when `path` exists and
  // `overwrite` is false. `mode` is the new file's, less the umask: 0600 for what is private.
  static Result<FileWriter> create(const std::string& path, bool overwrite,
                                   unsigned int mode = 0644);

  // Appends. Errors: kIo (a full disk says so); the writer can then only be destroyed.
  Result<void> write(std::span<const std::byte> bytes);
  // Writes at an absolute offset and leaves the append position alone.
  Result<void> write_at(int64_t offset, std::span<const std::byte> bytes);
  // Bytes appended so far.
  int64_t position() const { return position_; }

  // fsync, rename over the final name, fsync of the folder.
  Result<void> commit();

 private:
  FileWriter() = default;
  std::string path_;
  std::string temporary_;
  int fd_ = -1;
  int64_t position_ = 0;
};

}  // namespace ds4
