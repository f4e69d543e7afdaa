#include "report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>

#include "base/printable.h"

namespace ds4 {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPoll = std::chrono::milliseconds(100);
constexpr double kTerminalSeconds = 0.5;
constexpr double kLogSeconds = 5.0;

double gib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

// "1h02m", "3m20s", "8s"
std::string duration(double seconds) {
  const auto s = static_cast<int64_t>(seconds);
  if (s >= 3600) return fmt::format("{}h{:02}m", s / 3600, s % 3600 / 60);
  if (s >= 60) return fmt::format("{}m{:02}s", s / 60, s % 60);
  return fmt::format("{}s", s);
}

volatile std::sig_atomic_t g_interrupted = 0;

// The second Ctrl-C ends the program at once, as one expects when the first did not help.
void on_signal(int signal) {
  g_interrupted = 1;
  std::signal(signal, SIG_DFL);
}

void watch_signals() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  // A write beyond the process's file size limit is an error like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace

std::string describe_layout(const gguf::Layout& layout) {
  struct Use {
    int n = 0;
    int64_t bytes = 0;
  };
  std::map<std::string_view, Use> uses;
  for (int i = 0; i < layout.n_tensors(); ++i) {
    Use& use = uses[dtype_name(layout.tensor_type(i))];
    ++use.n;
    use.bytes += layout.tensor_bytes(i);
  }
  std::string text;
  for (const auto& [type, use] : uses) {
    text += fmt::format("  {:<8} {:>5} tensors {:>10.3f} GiB\n", type, use.n, gib(use.bytes));
  }
  const int64_t data = layout.file_bytes() - layout.data_start();
  text += fmt::format("data     {} bytes, {} of them padding, from byte {}\n", data,
                      data - layout.tensor_bytes(), layout.data_start());
  return text + fmt::format("output   {} tensors, {} bytes ({:.3f} GiB)\n", layout.n_tensors(),
                            layout.file_bytes(), gib(layout.file_bytes()));
}

int report_failure(const Error& error) {
  fmt::print(stderr, "ds4-quantize: {}\n", without_controls(error.message));
  if (error.code == ErrorCode::kCancelled) return kExitInterrupted;
  return error.code == ErrorCode::kInvalidArgument ? kExitUsage : kExitFailed;
}

Result<void> interruptible(const std::function<Result<void>(std::stop_token stop)>& work) {
  std::stop_source stop;
  const ConvertProgress unused;
  watch_signals();
  const ProgressReport watch(nullptr, unused, g_interrupted, stop);
  return work(stop.get_token());
}

int write_file(const std::string& path, const gguf::Layout& layout, const FileWork& write) {
  std::stop_source stop;
  ConvertProgress progress;
  watch_signals();
  const auto start = Clock::now();
  Result<void> done;
  {
    const ProgressReport report(&layout, progress, g_interrupted, stop);
    done = write(stop.get_token(), progress);
  }
  if (!done) {
    const int code = report_failure(done.error());
    // What was wrong with the command line has been said before the work began.
    return code == kExitUsage ? kExitFailed : code;
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  fmt::print(stderr, "wrote {} ({} bytes) in {:.1f} s, {:.1f} MB/s\n", path, layout.file_bytes(),
             seconds, static_cast<double>(layout.file_bytes()) / 1e6 / std::max(seconds, 1e-3));
  return 0;
}

ProgressReport::ProgressReport(const gguf::Layout* layout, const ConvertProgress& progress,
                               const volatile std::sig_atomic_t& interrupted, std::stop_source stop)
    : layout_(layout),
      progress_(progress),
      interrupted_(interrupted),
      stop_(std::move(stop)),
      total_bytes_(layout == nullptr ? 1 : std::max<int64_t>(1, layout->tensor_bytes())),
      terminal_(layout != nullptr && ::isatty(STDERR_FILENO) == 1),
      thread_([this](const std::stop_token& done) { loop(done); }) {}

ProgressReport::~ProgressReport() {
  thread_.request_stop();
  thread_.join();
  if (terminal_) std::fputs("\r\x1b[K", stderr);
}

void ProgressReport::loop(const std::stop_token& done) {
  const auto start = Clock::now();
  double next = terminal_ ? kTerminalSeconds : kLogSeconds;
  while (!done.stop_requested()) {
    std::this_thread::sleep_for(kPoll);
    if (interrupted_ != 0) stop_.request_stop();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (layout_ == nullptr || seconds < next) continue;
    next = seconds + (terminal_ ? kTerminalSeconds : kLogSeconds);
    show(seconds);
  }
}

void ProgressReport::show(double seconds) const {
  const int64_t done = progress_.bytes_done;
  const int tensors = progress_.tensors_done;
  const double rate = static_cast<double>(done) / seconds;
  const std::string eta =
      done == 0 ? "?" : duration(static_cast<double>(total_bytes_ - done) / rate);
  const int count = layout_->n_tensors();
  const std::string name = tensors < count ? layout_->tensor_name(tensors) : "syncing";
  const std::string line =
      fmt::format("{:5.1f} %  {:.2f} of {:.2f} GiB  {:.1f} MB/s  ETA {}  {}/{} {}",
                  100.0 * static_cast<double>(done) / static_cast<double>(total_bytes_), gib(done),
                  gib(total_bytes_), rate / 1e6, eta, tensors, count, name);
  fmt::print(stderr, "{}{}{}", terminal_ ? "\r" : "", line, terminal_ ? "\x1b[K" : "\n");
  std::fflush(stderr);
}

}  // namespace ds4
