#pragma once
// Runs a program at a pseudo-terminal, as a person would: types keys, waits for what appears.
//
// A thread reads the screen all the time, so the program never blocks on it. Waits have a deadline
// that only a hang reaches; nothing here depends on how fast the program is.
#include <fcntl.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ds4::test {

struct PtyOptions {
  unsigned short columns = 100, rows = 30;
  std::map<std::string, std::string> environment;  // added to the test's own
  int64_t memory_bytes_max = 0;                    // address space; 0: no limit
  std::string out_path;                            // standard output goes there instead
};

class PtyProcess {
 public:
  static constexpr std::chrono::seconds kDeadline{300};

  explicit PtyProcess(std::vector<std::string> command, const PtyOptions& options = {}) {
    std::vector<char*> argv;
    for (std::string& word : command) argv.push_back(word.data());
    argv.push_back(nullptr);
    winsize size = {};
    size.ws_col = options.columns;
    size.ws_row = options.rows;
    pid_ = ::forkpty(&master_, nullptr, nullptr, &size);
    if (pid_ == 0) become(argv, options);
    (void)::tcgetattr(master_, &mode_at_start_);
    reader_ = std::thread([this] { read_screen(); });
  }
  ~PtyProcess() {
    if (!waited_) {
      ::kill(pid_, SIGKILL);
      wait();
    }
  }
  PtyProcess(const PtyProcess&) = delete;
  PtyProcess& operator=(const PtyProcess&) = delete;

  // True once `text` stands on the screen after what earlier waits found; false when the program
  // ended or the deadline passed without it.
  bool wait_for(const std::string& text) {
    std::unique_lock lock(mutex_);
    const auto found = [&] { return screen_.find(text, seen_) != std::string::npos; };
    changed_.wait_for(lock, kDeadline, [&] { return found() || ended_; });
    if (!found()) return false;
    const size_t at = screen_.find(text, seen_);
    between_ = screen_.substr(seen_, at - seen_);
    seen_ = at + text.size();
    return true;
  }
  // What stood before the text that the last wait found.
  std::string between() const { return between_; }

  void type(const std::string& keys) const {
    for (size_t done = 0; done < keys.size();) {
      const ssize_t n = ::write(master_, keys.data() + done, keys.size() - done);
      if (n <= 0) return;
      done += static_cast<size_t>(n);
    }
  }
  void signal(int number) const { ::kill(pid_, number); }

  void resize(unsigned short columns, unsigned short rows) const {
    winsize size = {};
    size.ws_col = columns;
    size.ws_row = rows;
    ::ioctl(master_, TIOCSWINSZ, &size);
  }

  // The exit code, or minus the number of the signal that ended it; -1000 after the deadline.
  int wait() {
    if (waited_) return code_;
    for (const auto start = std::chrono::steady_clock::now();;) {
      int status = 0;
      if (::waitpid(pid_, &status, WNOHANG) == pid_) {
        code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
        break;
      }
      if (std::chrono::steady_clock::now() - start > kDeadline) {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, &status, 0);
        code_ = -1000;
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    waited_ = true;
    reader_.join();
    (void)::tcgetattr(master_, &mode_at_end_);
    ::close(master_);
    return code_;
  }
  // Whether the terminal works as it did when the program started: echo, lines, Ctrl-C.
  bool mode_is_as_it_was() const {
    termios now = mode_at_end_;
    if (!waited_) (void)::tcgetattr(master_, &now);
    return now.c_iflag == mode_at_start_.c_iflag && now.c_oflag == mode_at_start_.c_oflag &&
           now.c_lflag == mode_at_start_.c_lflag && now.c_cflag == mode_at_start_.c_cflag;
  }
  bool running() const {
    siginfo_t info = {};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
  }

  std::string screen() {
    const std::lock_guard lock(mutex_);
    return screen_;
  }

 private:
  [[noreturn]] static void become(const std::vector<char*>& argv, const PtyOptions& options) {
    for (const auto& [name, value] : options.environment) ::setenv(name.c_str(), value.c_str(), 1);
    if (options.memory_bytes_max > 0) {
      const rlimit limit = {static_cast<rlim_t>(options.memory_bytes_max),
                            static_cast<rlim_t>(options.memory_bytes_max)};
      ::setrlimit(RLIMIT_AS, &limit);
    }
    if (!options.out_path.empty()) {
      const int fd = ::open(options.out_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      if (fd < 0 || ::dup2(fd, STDOUT_FILENO) < 0) ::_exit(98);
    }
    ::execv(argv[0], argv.data());
    ::_exit(99);
  }

  void read_screen() {
    char buffer[4096];
    while (true) {
      const ssize_t n = ::read(master_, buffer, sizeof(buffer));  // EIO: the program has ended
      const std::lock_guard lock(mutex_);
      if (n > 0) screen_.append(buffer, static_cast<size_t>(n));
      ended_ = n <= 0;
      changed_.notify_all();
      if (ended_) return;
    }
  }

  pid_t pid_ = -1;
  int master_ = -1;
  bool waited_ = false;
  int code_ = 0;
  std::string between_;
  termios mode_at_start_ = {}, mode_at_end_ = {};
  std::thread reader_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::string screen_;
  size_t seen_ = 0;
  bool ended_ = false;
};

}  // namespace ds4::test
