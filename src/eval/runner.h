#pragma once
// Runs cases on the lanes of a decoder: reads prompts, lets all lanes answer together, grades, and
// keeps a board up to date. Between two steps it does what the board was told to: pause, run a case
// next, quit.
//
// Single-thread (the board is where others look). What run() is given must outlive the runner.
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "eval/answer.h"
#include "eval/board.h"
#include "eval/case.h"
#include "eval/decoder.h"
#include "eval/outcome.h"
#include "eval/prompt.h"

namespace ds4::eval {

struct RunOptions {
  AnswerOptions answer;
  // After a case, for someone who reads along; only without other lanes.
  int64_t pause_ms = 0;
};

struct RunHooks {
  // A case came to its end; called before the next one begins, again when it was run again.
  std::function<void(const Outcome&)> on_outcome;
  // Asked between steps; true ends the run.
  std::function<bool()> interrupted;
};

class Runner {
 public:
  // `prompts` are those of `cases`.
  Runner(std::span<const Case> cases, std::span<const Prompt> prompts, const Tokenizer& tokenizer,
         Decoder& decoder, Board& board, const RunOptions& options, RunHooks hooks);

  // Returns when every case has an outcome, or the run was ended: then cases in work are kStopped
  // and the others stay kPending. An error of one case is its outcome; errors here are of the
  // device, after which the outcomes so far still count.
  Result<void> run();

  // One a case, in order.
  const std::vector<Outcome>& outcomes() const { return outcomes_; }
  // True when run() returned before all cases were done.
  bool ended_early() const { return ended_early_; }

 private:
  struct Lane {
    std::optional<size_t> index;  // the case in work
    std::unique_ptr<AnswerRun> answer;
    uint64_t order = 0;  // of its start
  };

  Result<void> go();
  bool keep_going();
  void take_command();
  Result<void> fill_lanes();
  Result<void> start(size_t lane, size_t index);
  Result<void> step();
  void say(Lane& lane, size_t number, std::vector<LaneToken>& out);
  void finish(size_t index, CaseStatus status, const AnswerRun* answer, std::string error);
  void grade_answer(Outcome& outcome, const Case& c) const;
  void stop_lanes();

  const std::span<const Case> cases_;
  const std::span<const Prompt> prompts_;
  const Tokenizer& tokenizer_;
  Decoder& decoder_;
  Board& board_;
  const RunOptions options_;
  const RunHooks hooks_;
  std::vector<Outcome> outcomes_;
  std::vector<Lane> lanes_;
  std::deque<size_t> queue_;
  std::vector<LaneToken> tokens_;
  uint64_t n_started_ = 0;
  bool ended_early_ = false;
};

}  // namespace ds4::eval
