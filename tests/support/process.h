#pragma once
// Runs a program as a user would and keeps what it printed. Output goes through files, so a program
// that prints more than a pipe holds cannot block the test.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace ds4::test {

class Process {
 public:
  // `input` is the program's standard input. Output files are private to this process and object.
  explicit Process(std::vector<std::string> command, const std::string& input = "")
      : base_(std::filesystem::temp_directory_path() /
              ("ds4-test-" + std::to_string(getpid()) + "-" + std::to_string(++counter()))) {
    std::ofstream(base_ + ".in", std::ios::binary) << input;
    std::vector<char*> argv;
    for (std::string& word : command) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      redirect(".in", O_RDONLY, STDIN_FILENO);
      redirect(".out", O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO);
      redirect(".err", O_WRONLY | O_CREAT | O_TRUNC, STDERR_FILENO);
      ::execv(argv[0], argv.data());
      ::_exit(99);
    }
  }
  ~Process() {
    if (!waited_) {
      ::kill(pid_, SIGKILL);
      wait();
    }
    for (const char* part : {".in", ".out", ".err"}) std::filesystem::remove(base_ + part);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // The exit code, or minus the number of the signal that ended it.
  int wait() {
    if (!waited_) {
      int status = 0;
      ::wait4(pid_, &status, 0, &usage_);
      code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
      waited_ = true;
    }
    return code_;
  }
  // The most memory it had in use at a time; after wait().
  int64_t max_rss_bytes() const { return int64_t{usage_.ru_maxrss} * 1024; }
  void signal(int number) const { ::kill(pid_, number); }
  std::string out() const { return read(".out"); }
  std::string err() const { return read(".err"); }

 private:
  static int& counter() {
    static int n = 0;
    return n;
  }
  void redirect(const char* part, int flags, int target) const {
    const int fd = ::open((base_ + part).c_str(), flags, 0600);
    if (fd < 0 || ::dup2(fd, target) < 0) ::_exit(98);
  }
  std::string read(const char* part) const {
    std::stringstream text;
    text << std::ifstream(base_ + part, std::ios::binary).rdbuf();
    return text.str();
  }

  std::string base_;
  pid_t pid_ = -1;
  bool waited_ = false;
  int code_ = 0;
  rusage usage_ = {};
};

}  // namespace ds4::test
