#pragma once
// ds4-quantize splice: the experts of some layers from another file.
#include <CLI/CLI.hpp>
#include <string>

namespace ds4 {

struct SpliceFlags {
  std::string base, donor, layers, out;
  bool dry_run = false;
  bool overwrite = false;
};

CLI::App* add_splice_command(CLI::App& app, SpliceFlags& flags);

// Returns the exit code; says everything else itself.
int run_splice(const SpliceFlags& flags);

}  // namespace ds4
