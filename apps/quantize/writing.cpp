#include "writing.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <utility>

#include "report.h"

namespace ds4 {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;

// The second Ctrl-C ends the program at once, as one expects when the first did not help.
void on_signal(int signal) {
  g_interrupted = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

int report_failure(const Error& error, int code) {
  fmt::print(stderr, "ds4-quantize: {}\n", error.message);
  return code;
}

int report_plan_failure(const Error& error) {
  return report_failure(error,
                        error.code == ErrorCode::kInvalidArgument ? kExitUsage : kExitFailed);
}

Result<std::optional<LayerSet>> mixed_layers_from_flag(Recipe recipe, const std::string& text) {
  if (text.empty()) return std::nullopt;
  if (recipe != Recipe::kMixed) {
    return fail(ErrorCode::kInvalidArgument, "--mixed-layers: only the recipe mixed has them");
  }
  auto layers = LayerSet::parse(text);
  if (!layers) return fail_within("--mixed-layers", std::move(layers.error()));
  return *layers;
}

int write_reported(const gguf::Layout& layout, const std::string& out, const WriteFile& write) {
  std::stop_source stop;
  ConvertProgress progress;
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  std::signal(SIGXFSZ, SIG_IGN);
  const auto start = std::chrono::steady_clock::now();
  Result<void> done;
  {
    const ProgressReport report(layout, progress, g_interrupted, stop);
    done = write(stop.get_token(), progress);
  }
  if (!done) {
    const bool cancelled = done.error().code == ErrorCode::kCancelled;
    return report_failure(done.error(), cancelled ? kExitInterrupted : kExitFailed);
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print(stderr, "wrote {} ({} bytes) in {:.1f} s, {:.1f} MB/s\n", out, layout.file_bytes(),
             seconds, static_cast<double>(layout.file_bytes()) / 1e6 / std::max(seconds, 1e-3));
  return kExitDone;
}

}  // namespace ds4
