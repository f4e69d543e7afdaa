#pragma once
// ds4-quantize inspect: what is in a GGUF file, whichever program wrote it.
#include <CLI/CLI.hpp>
#include <string>

namespace ds4 {

struct InspectFlags {
  std::string file;
  bool keys = false;
  bool tensors = false;
};

CLI::App* add_inspect_command(CLI::App& app, InspectFlags& flags);

// Returns the exit code; says everything else itself.
int run_inspect(const InspectFlags& flags);

}  // namespace ds4
