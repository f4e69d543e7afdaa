#pragma once
// What ds4-quantize tells: the plan before, the progress during. Everything goes to stderr.
#include <csignal>
#include <cstdint>
#include <stop_token>
#include <string>
#include <thread>

#include "gguf/writer.h"
#include "quantizer/converter.h"
#include "quantizer/progress.h"

namespace ds4 {

// What is converted, then describe_layout().
std::string describe_plan(const Conversion& conversion);

// Tensors and bytes by type, and the size of the file.
std::string describe_layout(const gguf::Layout& layout);

// Shows progress until destroyed: a line that rewrites itself on a terminal, else one every 5
// seconds. Also watches `interrupted`, which a signal handler sets, and asks `stop` then; handlers
// themselves may do almost nothing.
class ProgressReport {
 public:
  ProgressReport(const gguf::Layout& layout, const ConvertProgress& progress,
                 const volatile std::sig_atomic_t& interrupted, std::stop_source stop);
  ~ProgressReport();
  ProgressReport(const ProgressReport&) = delete;
  ProgressReport& operator=(const ProgressReport&) = delete;

 private:
  void loop(const std::stop_token& done);
  void show(double seconds) const;

  const gguf::Layout& layout_;
  const ConvertProgress& progress_;
  const volatile std::sig_atomic_t& interrupted_;
  std::stop_source stop_;
  int64_t total_bytes_;
  bool terminal_;
  std::jthread thread_;
};

}  // namespace ds4
