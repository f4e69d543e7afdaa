#pragma once
// What every writer of a whole model file takes and tells: its options, how far it is, and how its
// threads agree on one error.
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

#include "base/result.h"

namespace ds4 {

struct RunOptions {
  int n_threads = 0;  // below 1: one per processor
  bool overwrite = false;
};

// Written while a file is, read from another thread.
struct ConvertProgress {
  std::atomic<int64_t> bytes_done{0};  // of Layout tensor bytes
  std::atomic<int> tensors_done{0};
};

// The first error of several threads; the others see it and stop. Thread-safe but for result(),
// which is called when all have ended.
class FirstError {
 public:
  bool any() const { return any_.load(std::memory_order_relaxed); }
  void keep(Error error) {
    const std::scoped_lock lock(mutex_);
    if (!error_) error_ = std::move(error);
    any_ = true;
  }
  Result<void> result() {
    if (error_) return tl::unexpected<Error>(std::move(*error_));
    return {};
  }

 private:
  std::atomic<bool> any_{false};
  std::mutex mutex_;
  std::optional<Error> error_;
};

}  // namespace ds4
