#include "base/file_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace ds4 {
namespace {

tl::unexpected<Error> system_error(const std::string& path, const char* doing) {
  return fail(ErrorCode::kIo, fmt::format("{}: cannot {}: {}", path, doing, std::strerror(errno)));
}

// Makes the rename itself durable. A file system that cannot sync folders is not an error.
void sync_folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  (void)::fsync(fd);
  ::close(fd);
}

}  // namespace

FileWriter::FileWriter(FileWriter&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::exchange(other.fd_, -1)),
      position_(std::exchange(other.position_, 0)) {}

FileWriter& FileWriter::operator=(FileWriter&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(temporary_, other.temporary_);
  std::swap(fd_, other.fd_);
  std::swap(position_, other.position_);
  return *this;
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<FileWriter> FileWriter::create(const std::string& path, bool overwrite, unsigned int mode) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) == 0) {
    if (!S_ISREG(info.st_mode)) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: exists and is not a regular file", path));
    }
    if (!overwrite) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("{}: already exists", path));
    }
  }
  FileWriter writer;
  writer.path_ = path;
  writer.temporary_ = fmt::format("{}.tmp.{}", path, ::getpid());
  writer.fd_ = ::open(writer.temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  if (writer.fd_ < 0) {
    auto error = system_error(writer.temporary_, "create");
    writer.temporary_.clear();
    return error;
  }
  return writer;
}

Result<void> FileWriter::write(std::span<const std::byte> bytes) {
  DS4_TRY_VOID(write_at(position_, bytes));
  position_ += static_cast<int64_t>(bytes.size());
  return {};
}

Result<void> FileWriter::write_at(int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error(temporary_, "write");
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += n;
  }
  return {};
}

Result<void> FileWriter::commit() {
  if (::fsync(fd_) != 0) return system_error(temporary_, "sync");
  const int closed = ::close(std::exchange(fd_, -1));
  if (closed != 0) return system_error(temporary_, "close");
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return system_error(path_, "rename the finished file to");
  }
  temporary_.clear();
  sync_folder_of(path_);
  return {};
}

}  // namespace ds4
