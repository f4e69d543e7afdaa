#pragma once
// The command line of ds4-bench, as a structure.
#include <cstdint>
#include <optional>
#include <string>

#include "common/engine_flags.h"
#include "common/exit_codes.h"
#include "common/terminal.h"

namespace ds4::bench {

struct Options : app::EngineFlags {
  std::string model = "ds4flash.gguf";
  bool allow_slice = false;

  // The token sequence: exactly one of the two files.
  std::string prompt_file, chat_prompt_file;
  std::string system = "You are a helpful assistant";

  // Where to measure, in tokens.
  int64_t ctx_start = 2048;
  int64_t ctx_max = 32768;
  int64_t ctx_alloc = 0;  // 0: ctx_max + gen_tokens + 1
  double step_mul = 1;    // above 1 it counts, else step_incr
  int64_t step_incr = 2048;
  int64_t gen_tokens = 128;
  int64_t repeat = 1;
  int64_t batch = 1;
  int64_t batch_offset = 0;

  // What is written besides the CSV. Empty: standard output for the CSV, none of the others.
  std::string csv, json, plot, logits_dir;
  bool extended = false;
  bool machine = false;  // the machine's limits instead of a model

  bool quality = false;
  bool warm_weights = false;

  // From the environment, not from flags.
  app::Screen screen;
};

// Parses and checks the command line. Nothing to do (--help and --version print) or wrong usage
// (said on stderr) give the exit code instead.
struct Parsed {
  Options options;
  std::optional<int> exit_code;
};
Parsed parse_options(int argc, char** argv);

}  // namespace ds4::bench
