#pragma once
// What ds4-bench does. Each function prints its results and returns the exit code; errors are what
// kept it from doing so.
#include "base/result.h"
#include "options.h"

namespace ds4::bench {

// A sweep over a model's context (run.cpp).
Result<int> run_sweep(const Options& options);

// The machine's limits as a table (machine.cpp).
Result<int> show_machine(const Options& options);

}  // namespace ds4::bench
