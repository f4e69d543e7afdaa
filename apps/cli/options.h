#pragma once
// The command line of ds4, as a structure.
#include <cstdint>
#include <optional>
#include <string>

#include "chat/effort.h"
#include "common/engine_flags.h"
#include "common/exit_codes.h"
#include "engine/sampler.h"
#include "terminal.h"

namespace ds4::cli {

using app::kExitFailed;
using app::kExitInterrupted;
using app::kExitUsage;

enum class Mode {
  kAnswer,  // one prompt; without a prompt, at a terminal, a conversation (main.cpp)
  kInspect,
  kDumpTokens,
  kDumpLogprobs,
  kDumpLogits,
  kPerplexity,
  kImatrix,
};

struct Options : app::EngineFlags {
  Mode mode = Mode::kAnswer;
  std::string model = "ds4flash.gguf";
  bool allow_slice = false;

  // Where the prompt comes from: the text, a file ("-" is standard input), or neither given.
  std::optional<std::string> prompt;
  std::optional<std::string> prompt_file;
  bool raw_prompt = false;  // BOS and the text as it is: no template
  std::string system = "You are a helpful assistant";

  Thinking thinking;
  std::string effort_profile = "auto";
  bool hide_thinking = false;

  int64_t ctx_tokens = 32768;
  int64_t max_tokens = 50000;
  SamplerOptions sampler;

  bool profile_ops = false;
  std::optional<int64_t> snapshot_bytes;  // for snapshots of a conversation; unset: what fits

  // Where the numbers of the dump modes come from and go to.
  std::string dump_logprobs, dump_logits, perplexity_file;
  std::string imatrix_dataset, imatrix_out;
  int64_t imatrix_max_prompts = 0, imatrix_max_tokens = 0;  // 0: no limit
  int64_t logprobs_top_k = 20;
  std::string trace;  // empty: none

  // From the environment, not from flags.
  Screen screen;
  std::string history_file;  // empty: none
};

// Parses and checks the command line. Nothing to do (--help and --version print) or wrong usage
// (said on stderr) give the exit code instead.
struct Parsed {
  Options options;
  std::optional<int> exit_code;
};
Parsed parse_options(int argc, char** argv);

}  // namespace ds4::cli
