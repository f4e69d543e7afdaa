#pragma once
// A whole file as read-only memory. The mapping lives as long as the object; moving it keeps every
// pointer valid. Const access is thread-safe. If another process shortens the file while it is
// mapped, touching the lost pages raises SIGBUS: replace model files by renaming, never in place.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace ds4 {

class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  // Errors: kNotFound or kIo with the path and the system's reason; kInvalidArgument when `path` is
  // a directory or another thing that is not a regular file. An empty file gives empty bytes.
  static Result<MappedFile> open(const std::string& path);

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::string path_;
};

}  // namespace ds4
