#include "full_screen.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace ds4::evaluate {
namespace {

// Other page, no line wrap, no cursor. Without wrap a character that the terminal takes for wider
// than we do spoils its own row only.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?7l\x1b[?25l\x1b[2J";
constexpr std::string_view kLeave = "\x1b[0m\x1b[?25h\x1b[?7h\x1b[?1049l";

constexpr std::array kCrashes = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGQUIT};

// What has to be given back. Process-wide, because a crash handler can reach nothing else; written
// by the thread of the FullScreen.
struct Taken {
  volatile sig_atomic_t terminal = 0;
  termios mode = {};
  int held_file = -1;    // what goes to standard error meanwhile
  int real_errors = -1;  // standard error as it was
};
Taken taken;

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

// Calls only what a signal handler may.
void give_back() {
  if (taken.terminal == 0) return;
  taken.terminal = 0;
  (void)write_all(STDOUT_FILENO, kLeave);
  (void)::tcsetattr(STDOUT_FILENO, TCSANOW, &taken.mode);
  if (taken.real_errors < 0) return;
  (void)::dup2(taken.real_errors, STDERR_FILENO);
  char buffer[1024];
  (void)::lseek(taken.held_file, 0, SEEK_SET);
  for (ssize_t n = 0; (n = ::read(taken.held_file, buffer, sizeof(buffer))) > 0;) {
    if (!write_all(STDERR_FILENO, std::string_view(buffer, static_cast<size_t>(n)))) break;
  }
}

extern "C" void on_crash(int number) {
  give_back();
  ::signal(number, SIG_DFL);
  ::raise(number);
}

void hold_errors() {
  if (::isatty(STDERR_FILENO) != 1) return;
  FILE* file = std::tmpfile();
  if (file == nullptr) return;  // then they are seen at once, in the middle of the page
  std::fflush(stderr);
  taken.held_file = ::fcntl(::fileno(file), F_DUPFD_CLOEXEC, 3);
  (void)std::fclose(file);
  taken.real_errors = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  (void)::dup2(taken.held_file, STDERR_FILENO);
}

void close_held() {
  for (int* fd : {&taken.held_file, &taken.real_errors}) {
    if (*fd >= 0) ::close(*fd);
    *fd = -1;
  }
}

Key key_of_letter(char c, bool& known) {
  known = true;
  switch (c) {
    case '\r':
    case '\n':
      return Key::kEnter;
    case 'p':
    case 'P':
    case ' ':
      return Key::kPause;
    case 'f':
    case 'F':
      return Key::kFollow;
    case 'q':
    case 'Q':
      return Key::kQuit;
    case 'k':
      return Key::kUp;
    case 'j':
      return Key::kDown;
    case 0x03:
      return Key::kInterrupt;
    case 0x1A:
      return Key::kSuspend;
    case 0x0C:
      return Key::kRedraw;
    default:
      known = false;
      return Key::kRedraw;
  }
}

Key key_of_sequence(std::string_view sequence, bool& known) {
  constexpr std::pair<std::string_view, Key> kSequences[] = {
      {"[A", Key::kUp},   {"OA", Key::kUp},      {"[B", Key::kDown},
      {"OB", Key::kDown}, {"[5~", Key::kPageUp}, {"[6~", Key::kPageDown}};
  for (const auto& [text, key] : kSequences) {
    known = sequence == text;
    if (known) return key;
  }
  return Key::kRedraw;
}

}  // namespace

std::vector<Key> KeyReader::push(std::string_view bytes) {
  constexpr size_t kSequenceBytesMax = 32;
  pending_ += bytes;
  std::vector<Key> keys;
  const auto add = [&](Key key, bool known) {
    if (known) keys.push_back(key);
  };
  size_t at = 0;
  while (at < pending_.size()) {
    const std::string_view rest = std::string_view(pending_).substr(at);
    bool known = false;
    if (rest[0] != '\x1b') {
      const Key key = key_of_letter(rest[0], known);
      add(key, known);
      ++at;
      continue;
    }
    if (rest.size() < 2) break;
    if (rest[1] != '[' && rest[1] != 'O') {  // Escape itself, or a key with Alt: no meaning here
      at += rest[1] == '\x1b' ? 1 : 2;
      continue;
    }
    size_t n = 2;  // parameters, then one byte that ends the sequence
    while (n < rest.size() && rest[n] >= 0x20 && rest[n] < 0x40) ++n;
    if (n == rest.size() && n < kSequenceBytesMax) break;
    const size_t end = std::min(n + 1, rest.size());
    const Key key = key_of_sequence(rest.substr(1, end - 1), known);
    add(key, known);
    at += end;
  }
  pending_.erase(0, at);
  return keys;
}

Result<void> FullScreen::enter() {
  std::fflush(stdout);
  if (::tcgetattr(STDOUT_FILENO, &taken.mode) != 0) {
    return fail(ErrorCode::kIo, fmt::format("terminal: {}", std::strerror(errno)));
  }
  hold_errors();
  taken.terminal = 1;
  for (const int number : kCrashes) ::signal(number, on_crash);
  return resume();
}

Result<void> FullScreen::resume() {
  forget_drawn();
  termios raw = taken.mode;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG | IEXTEN);
  raw.c_iflag &= ~static_cast<tcflag_t>(IXON | ICRNL);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  if (::tcsetattr(STDOUT_FILENO, TCSANOW, &raw) != 0 || !write_all(STDOUT_FILENO, kEnter)) {
    return fail(ErrorCode::kIo, fmt::format("terminal: {}", std::strerror(errno)));
  }
  return {};
}

void FullScreen::leave() {
  std::fflush(stderr);
  if (taken.terminal != 0) {
    for (const int number : kCrashes) ::signal(number, SIG_DFL);
  }
  give_back();
  close_held();
}

Result<void> FullScreen::suspend() {
  leave();
  ::raise(SIGTSTP);
  return enter();
}

Result<void> FullScreen::draw(std::span<const std::string> rows) {
  std::string out;
  if (drawn_.size() != rows.size()) {
    drawn_.assign(rows.size(), {});
    out = "\x1b[0m\x1b[2J";
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (drawn_[i] == rows[i]) continue;
    drawn_[i] = rows[i];
    out += fmt::format("\x1b[{};1H\x1b[0m{}\x1b[0m", i + 1, rows[i]);
  }
  if (write_all(STDOUT_FILENO, out)) return {};
  return fail(ErrorCode::kIo, fmt::format("terminal: cannot write: {}", std::strerror(errno)));
}

std::pair<int, int> FullScreen::size() {
  winsize size = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    return {80, 24};
  }
  return {size.ws_col, size.ws_row};
}

}  // namespace ds4::evaluate
