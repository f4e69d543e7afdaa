#pragma once
// The measurement: one fixed sequence of tokens, read from frontier to frontier; at each of them an
// answer that is forgotten again.
//
//   tokens   0 ......... F1 ............ F2 ..........
//   timed    [  prefill  ][   prefill    ]
//                         \ decode        \ decode, each from a snapshot of its frontier
//
// Single-thread, with the engine, which must outlive it. The engine must keep no snapshots of its
// own (SnapshotOptions::bytes_max 0): a prompt would continue from one instead of being read.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/session.h"
#include "engine/snapshot.h"

namespace ds4::bench {

// ctx-start, then times step-mul (rounded up) where that is above 1, else plus step-incr; the last
// one is ctx-max exactly. Needs 1 <= start <= max, mul >= 1, incr >= 1.
std::vector<int64_t> frontiers(int64_t start, int64_t max, double mul, int64_t incr);

// The likeliest token other than `excluded`, the lowest id among equals. Errors: kNonFinite when no
// other logit is finite.
Result<Token> best_token_except(std::span<const float> logits, Token excluded);

// The smallest value that at least `share` of all are not above; 0 of none.
double percentile(std::vector<double> values, double share);

// What was measured at one frontier. Rates are tokens a second; medians where repeated.
struct Row {
  int64_t ctx_tokens = 0;
  int64_t prefill_tokens = 0;  // since the frontier before
  double prefill_tps = 0;
  int64_t gen_tokens = 0;  // of each session
  double gen_tps = 0;      // of all sessions together; 0 without an answer
  int64_t kvcache_bytes = 0;

  double ttft_ms = 0;  // reading everything up to here, and choosing a token
  std::optional<double> gen_p50_ms, gen_p95_ms;
  int64_t batch = 1;
  std::optional<double> mtp_accept;
  std::optional<double> power_w;
  std::optional<int64_t> mem_bytes;
};

struct SweepOptions {
  int64_t ctx_alloc = 0;
  int64_t gen_tokens = 128;
  int64_t repeat = 1;
  int64_t batch = 1;
  int64_t batch_offset = 0;
  Token eos = -1;  // never chosen
};

struct SweepHooks {
  // True ends the measurement at the next chunk or token.
  std::function<bool()> interrupted;
  // Work within a row: what, tokens done, tokens in all. Called inside the timed part.
  std::function<void(const char* doing, int64_t done, int64_t total)> progress;
  // The first session has been read up to a frontier, for the first time.
  std::function<Result<void>(const Session&, int64_t prefill_tokens)> on_frontier;
  // A token was chosen for session `lane`.
  std::function<void(int64_t lane, Token)> on_token;
};

class Sweep {
 public:
  // Sessions of the engine: `batch` of them, with memory for ctx_alloc tokens each. `prompt` is
  // copied; it needs as many tokens as the last frontier and (batch - 1) * batch_offset more.
  // Errors: those of Session::create.
  static Result<Sweep> create(Engine& engine, std::span<const Token> prompt,
                              const SweepOptions& options, SweepHooks hooks);

  // Reads up to `n_tokens` and answers two, so that the first row does not pay for pages that are
  // touched for the first time. Leaves nothing behind. Errors: as measure().
  Result<void> warm_up(int64_t n_tokens);

  // The next row; frontiers must ascend. Errors: those of Session::sync and Engine::step, of
  // best_token_except and of on_frontier; kCancelled when interrupted.
  Result<Row> measure(int64_t frontier);

 private:
  // One session, and where it goes back to.
  struct Lane {
    Session session;
    std::vector<Token> text;
    std::optional<Snapshot> here;
  };

  Sweep(Engine& engine, const SweepOptions& options, SweepHooks hooks)
      : engine_(&engine), options_(options), hooks_(std::move(hooks)) {}
  Result<double> prefill(Lane& lane, int64_t frontier, const char* doing);
  Result<double> decode(int64_t n_tokens, std::vector<double>& step_ms);
  Result<void> go_back();  // to the frontier before, the first session

  Engine* engine_;
  SweepOptions options_;
  SweepHooks hooks_;
  std::vector<Lane> lanes_;
  std::optional<Snapshot> before_;  // of the first session, at the frontier before
  int64_t previous_ = 0;            // that frontier
  double prefill_seconds_ = 0;      // of all rows so far
  std::vector<SessionStep> steps_;
  std::vector<Token> chosen_;
};

}  // namespace ds4::bench
