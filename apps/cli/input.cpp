#include "input.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ds4::cli {
namespace {

// Closes what it opened, not standard input.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ > STDERR_FILENO) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

tl::unexpected<Error> system_error(ErrorCode code, const std::string& name, const char* doing) {
  return fail(code, fmt::format("{}: cannot {}: {}", name, doing, std::strerror(errno)));
}

Result<std::string> read_to_end(int fd, const std::string& name) {
  std::string text;
  char buffer[65536];
  while (true) {
    const ssize_t n = ::read(fd, buffer, sizeof(buffer));
    if (n == 0) return text;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error(ErrorCode::kIo, name, "read");
    text.append(buffer, static_cast<size_t>(n));
    if (static_cast<int64_t>(text.size()) > kInputBytesMax) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: expected a text of at most {} bytes", name, kInputBytesMax));
    }
  }
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

Result<std::string> read_input(const std::string& path) {
  if (path == "-") return read_to_end(STDIN_FILENO, "standard input");
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return system_error(ErrorCode::kNotFound, path, "open");
  return read_to_end(file.get(), path);
}

Result<std::string> read_regular_file(const std::string& path) {
  // Without O_NONBLOCK the open of a FIFO waits for a writer that may never come.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0) return system_error(ErrorCode::kNotFound, path, "open");
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0) return system_error(ErrorCode::kIo, path, "read");
  if (!S_ISREG(info.st_mode)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: expected a file, found {}", path, kind_of(info.st_mode)));
  }
  return read_to_end(file.get(), path);
}

}  // namespace ds4::cli
