#pragma once
// Whether what the options ask for fits into this machine's memory, said before it is allocated.
#include "base/result.h"
#include "model/model.h"
#include "options.h"

namespace ds4::cli {

// Prints the plan on standard error: one line, or a line a part with --verbose. Errors:
// kOutOfMemory with the numbers and the largest context that fits; kInvalidArgument for a context
// outside the model's.
Result<void> check_memory_plan(const Model& model, const Options& options);

// For --inspect: the plan on standard output, and whether it fits. Errors: kInvalidArgument as
// above.
Result<void> print_memory_plan(const Model& model, const Options& options);

}  // namespace ds4::cli
