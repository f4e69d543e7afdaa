#include "common/signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>

#include "common/exit_codes.h"

namespace ds4::app {
namespace {

// A handler runs on any thread, so these are atomics; lock-free ones are safe in a handler.
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<Phase>::is_always_lock_free);
std::atomic<Phase> g_phase = Phase::kLoading;
std::atomic<bool> g_interrupted = false;
std::atomic<bool> g_end_requested = false;
std::atomic<bool> g_resized = false;
std::atomic<bool> g_continued = false;
int g_wake[2] = {-1, -1};  // constant once the handlers are there

void on_interrupt(int signal) {
  const Phase phase = g_phase;
  if (phase == Phase::kLoading) ::_exit(kExitInterrupted);
  if (phase == Phase::kWorking && g_interrupted) {
    std::signal(signal, SIG_DFL);
    ::raise(signal);  // delivered when this handler returns
  }
  g_interrupted = true;
  if (signal == SIGTERM) g_end_requested = true;
}

void on_signal(int signal) {
  const int saved = errno;
  if (signal == SIGWINCH) {
    g_resized = true;
  } else if (signal == SIGCONT) {
    g_continued = true;
  } else {
    on_interrupt(signal);
  }
  // A full pipe wakes as well as one byte more.
  if (::write(g_wake[1], "", 1) < 0) errno = saved;
  errno = saved;
}

}  // namespace

void install_signals() {
  if (::pipe2(g_wake, O_CLOEXEC | O_NONBLOCK) != 0) g_wake[0] = g_wake[1] = -1;
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // the pipe wakes those who wait; nobody else needs EINTR
  ::sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM, SIGWINCH, SIGCONT}) {
    ::sigaction(signal, &action, nullptr);
  }
  std::signal(SIGPIPE, SIG_IGN);
}

void enter_phase(Phase phase) { g_phase = phase; }
bool interrupted() { return g_interrupted; }
bool end_requested() { return g_end_requested; }

void clear_interrupt() {
  if (!end_requested()) g_interrupted = false;
}

bool take_resized() { return g_resized.exchange(false); }
bool take_continued() { return g_continued.exchange(false); }

int signal_fd() { return g_wake[0]; }

void drain_signal_fd() {
  char bytes[64];
  while (::read(g_wake[0], bytes, sizeof(bytes)) > 0) {
  }
}

}  // namespace ds4::app
