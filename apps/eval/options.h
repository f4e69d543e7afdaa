#pragma once
// The command line of ds4-eval, as a structure.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "chat/effort.h"
#include "common/engine_flags.h"
#include "common/exit_codes.h"
#include "common/terminal.h"
#include "eval/answer.h"

namespace ds4::evaluate {

enum class Mode {
  kRun,  // cases with a model
  kListCases,
  kSelfTest,
  kRegrade,
  kCompare,
  kContinuations,
  kCompareScores,
  kText,
  kRenderCases,
};

struct Options : app::EngineFlags {
  Mode mode = Mode::kRun;
  std::string model = "ds4flash.gguf";

  // Which cases, and in what order.
  std::string suite = "nano";
  std::string cases_file;            // empty: the suite
  std::vector<std::string> sources;  // of these only; empty: all
  std::string sequence;              // "3,1,10-12": by number, after the above; empty: as they come
  int64_t questions = 0;             // the first of them; 0: all

  eval::AnswerOptions answer;
  int64_t ctx_tokens = 0;  // 0: largest prompt and answer; for text, 4096
  Thinking thinking;
  bool think_forced = false;  // --think or --nothink was given
  std::string effort_profile = "auto";
  int64_t jobs = 1;
  bool plain = false;
  int64_t pause_ms = 350;

  std::string trace, json;  // empty: none
  std::optional<int64_t> min_pass;
  int64_t failures_shown = 50;

  // The other modes.
  std::string regrade, continuations, scores, text, chats, reference, render_cases;
  std::vector<std::string> compare, compare_scores;  // old and new
  int64_t text_tokens = 0;                           // 0: all

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

}  // namespace ds4::evaluate
