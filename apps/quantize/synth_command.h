#pragma once
// ds4-quantize synth: a model file with random weights.
#include <cstdint>
#include <string>

#include "quantizer/synth.h"

namespace CLI {
class App;
}

namespace ds4 {

class SynthCommand {
 public:
  // Adds the command to `app`, which must outlive this and parse after it.
  explicit SynthCommand(CLI::App& app);
  SynthCommand(const SynthCommand&) = delete;
  SynthCommand& operator=(const SynthCommand&) = delete;

  // Whether the command line asked for it; valid after parsing, as run() is.
  bool chosen() const;
  // Plans, writes and checks. Returns the exit code.
  int run() const;

 private:
  Result<SynthOptions> options() const;
  bool wants_check(const ModelConfig& config) const;
  int check(const SynthOptions& chosen) const;

  CLI::App* command_ = nullptr;
  std::string shape_, recipe_ = "q2", mixed_layers_, routing_ = "uniform", out_;
  int64_t seed_ = 1;
  int n_threads_ = 0;
  int64_t check_tokens_ = 64;
  bool check_ = false, no_check_ = false;
  bool overwrite_ = false, dry_run_ = false, sparse_ = false;
};

}  // namespace ds4
