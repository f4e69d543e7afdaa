#pragma once
// What ds4-quantize tells: the plan before, the progress during, the outcome after. Everything goes
// to stderr; results that a person asked to see go to stdout and are the commands' own.
#include <csignal>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>

#include "base/result.h"
#include "common/exit_codes.h"
#include "gguf/writer.h"
#include "quantizer/progress.h"

namespace ds4 {

using app::kExitFailed;
using app::kExitInterrupted;
using app::kExitUsage;

// Tensors and bytes by type, and the size of the file.
std::string describe_layout(const gguf::Layout& layout);

// "ds4-quantize: MESSAGE" and the exit code that goes with it: an argument without meaning is wrong
// usage, a cancelled piece of work was interrupted.
int report_failure(const Error& error);

// Runs `write`, which writes a file of this layout, with progress, and stops it on Ctrl-C; prints
// what became of it and the rate. Returns the exit code.
using FileWork = std::function<Result<void>(std::stop_token stop, ConvertProgress& progress)>;
int write_file(const std::string& path, const gguf::Layout& layout, const FileWork& write);

// Runs `work` and stops it on Ctrl-C.
Result<void> interruptible(const std::function<Result<void>(std::stop_token stop)>& work);

// Tensors and bytes by type, and the size of the file.
std::string describe_layout(const gguf::Layout& layout);

// Shows progress until destroyed: a line that rewrites itself on a terminal, else one every 5
// seconds. Also watches `interrupted`, which a signal handler sets, and asks `stop` then; handlers
// themselves may do almost nothing.
class ProgressReport {
 public:
  // `layout` may be null: nothing is shown, the watch stays.
  ProgressReport(const gguf::Layout* layout, const ConvertProgress& progress,
                 const volatile std::sig_atomic_t& interrupted, std::stop_source stop);
  ~ProgressReport();
  ProgressReport(const ProgressReport&) = delete;
  ProgressReport& operator=(const ProgressReport&) = delete;

 private:
  void loop(const std::stop_token& done);
  void show(double seconds) const;

  const gguf::Layout* layout_;
  const ConvertProgress& progress_;
  const volatile std::sig_atomic_t& interrupted_;
  std::stop_source stop_;
  int64_t total_bytes_;
  bool terminal_;
  std::jthread thread_;
};

}  // namespace ds4
