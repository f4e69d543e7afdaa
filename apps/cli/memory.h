#pragma once
// Whether what the options ask for fits into this machine's memory, said before it is allocated.
#include "base/result.h"
#include "common/memory_check.h"
#include "model/model.h"
#include "options.h"

namespace ds4::cli {

// Prints the plan on standard error: one line, or a line a part with --verbose. Returns what
// is left for snapshots (at most `snapshot_bytes`, and as many where --snapshot-mb was given) and
// for copies of weights. Errors: kOutOfMemory with the numbers and the largest context that fits;
// kInvalidArgument for a context outside the model's.
Result<app::GrantedMemory> check_memory_plan(const Model& model, const Options& options,
                                             int64_t snapshot_bytes, bool copies_exist = false);

// Bytes that a conversation's snapshots are to take: --snapshot-mb, or its default.
int64_t snapshot_bytes_wanted(const Options& options);

// For --inspect: the plan on standard output, and whether it fits. Errors: kInvalidArgument as
// above.
Result<void> print_memory_plan(const Model& model, const Options& options);

}  // namespace ds4::cli
