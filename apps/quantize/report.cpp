#include "report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>

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

}  // namespace

std::string describe_plan(const Conversion& conversion) {
  struct Use {
    int n = 0;
    int64_t bytes = 0;
  };
  std::map<std::string_view, Use> uses;
  for (size_t i = 0; i < conversion.tensors().size(); ++i) {
    Use& use = uses[dtype_name(conversion.tensors()[i].type)];
    ++use.n;
    use.bytes += conversion.layout().tensor_bytes(static_cast<int>(i));
  }
  std::string text = fmt::format(
      "model    DeepSeek V4 {}{}\nsource   {:.3f} GiB\n", conversion.config().name,
      conversion.has_mtp() ? " with its MTP block" : "", gib(conversion.source_bytes()));
  for (const auto& [type, use] : uses) {
    text += fmt::format("  {:<8} {:>5} tensors {:>10.3f} GiB\n", type, use.n, gib(use.bytes));
  }
  text += fmt::format("output   {} tensors, {} bytes ({:.3f} GiB)\n", conversion.tensors().size(),
                      conversion.layout().file_bytes(), gib(conversion.layout().file_bytes()));
  return text;
}

ProgressReport::ProgressReport(const Conversion& conversion, const ConvertProgress& progress,
                               const volatile std::sig_atomic_t& interrupted, std::stop_source stop)
    : conversion_(conversion),
      progress_(progress),
      interrupted_(interrupted),
      stop_(std::move(stop)),
      total_bytes_(std::max<int64_t>(1, conversion.tensor_bytes())),
      terminal_(::isatty(STDERR_FILENO) == 1),
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
    if (seconds < next) continue;
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
  const auto count = static_cast<int>(conversion_.tensors().size());
  const std::string name =
      tensors < count ? conversion_.tensors()[static_cast<size_t>(tensors)].spec.name : "syncing";
  const std::string line =
      fmt::format("{:5.1f} %  {:.2f} of {:.2f} GiB  {:.1f} MB/s  ETA {}  {}/{} {}",
                  100.0 * static_cast<double>(done) / static_cast<double>(total_bytes_), gib(done),
                  gib(total_bytes_), rate / 1e6, eta, tensors, count, name);
  fmt::print(stderr, "{}{}{}", terminal_ ? "\r" : "", line, terminal_ ? "\x1b[K" : "\n");
  std::fflush(stderr);
}

}  // namespace ds4
