#pragma once
// What every command of ds4-quantize does around the writing of its file.
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "gguf/writer.h"
#include "quantizer/progress.h"
#include "quantizer/recipe.h"

namespace ds4 {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInterrupted = 130;

// Says why on stderr; returns `code`.
int report_failure(const Error& error, int code);

// For an error found while planning: what has no meaning is wrong usage.
int report_plan_failure(const Error& error);

// The list of --mixed-layers, empty when it was not given. Errors: kInvalidArgument for no list, or
// another recipe.
Result<std::optional<LayerSet>> mixed_layers_from_flag(Recipe recipe, const std::string& text);

// Calls `write`, which makes `out` as `layout` plans it, with progress on stderr and a stop that
// Ctrl-C and SIGTERM ask for; says how long it took. A write beyond the process's file size limit
// is an error of `write`, not the end of the program. Returns the exit code.
using WriteFile = std::function<Result<void>(std::stop_token stop, ConvertProgress& progress)>;
int write_reported(const gguf::Layout& layout, const std::string& out, const WriteFile& write);

}  // namespace ds4
