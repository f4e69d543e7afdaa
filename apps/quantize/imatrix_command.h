#pragma once
// ds4-quantize imatrix: looks into importance matrices, merges and converts them.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace ds4 {

struct ImatrixFlags {
  std::vector<std::string> files;
  std::string out;
  bool overwrite = false;
};

CLI::App* add_imatrix_command(CLI::App& app, ImatrixFlags& flags);

// Returns the exit code; says everything else itself.
int run_imatrix(const ImatrixFlags& flags);

}  // namespace ds4
