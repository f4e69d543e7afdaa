#pragma once
// What an evaluation looks like from outside while it runs: the list of cases with their states and
// counts, the text that each has said so far, totals and rates. The runner writes, a screen reads
// and gives commands back; neither waits for the other.
//
// Thread-safe. cases() is constant after construction.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ds4::eval {

enum class CaseStatus {
  kPending,
  kPrefill,   // the prompt is read
  kThinking,  // reasoning
  kAnswer,    // after the reasoning
  kPassed,
  kFailed,
  kSkipped,  // the prompt leaves no room for an answer
  kStopped,  // the run ended before this case did
  kError,    // something other than the answer went wrong
};
const char* name_of(CaseStatus status);  // "pending", "prefill", ...
bool is_finished(CaseStatus status);
bool is_running(CaseStatus status);  // prefill, thinking or answer

// What does not change.
struct BoardCase {
  std::string id, source, title;
  std::string question;  // to be shown above the answer; may be long
};

// What does.
struct BoardRow {
  CaseStatus status = CaseStatus::kPending;
  int64_t prompt_tokens = 0;     // of the whole prompt; 0 until known
  int64_t prompt_done = 0;       // read so far
  int64_t generated_tokens = 0;  // reasoning and answer
  int64_t budget_left = 0;       // tokens that may still be generated
  double elapsed_seconds = 0;    // on the board's clock, since the case began
};

struct BoardTotals {
  int64_t passed = 0, failed = 0, skipped = 0, stopped = 0, errors = 0;
  int64_t running = 0, pending = 0;
  int64_t prompt_tokens = 0, generated_tokens = 0;  // of everything done in this run
};

// Text of one case. Whole UTF-8; it may hold any character a model can utter, so a screen shows it
// without control characters.
struct BoardText {
  std::string reasoning, content;
  std::string note;  // of a finished case: "picked 12, expected 14"; of an error, its message
};

struct BoardSnapshot {
  uint64_t version = 0;        // grows with every change
  std::vector<BoardRow> rows;  // as cases()
  BoardTotals totals;
  size_t selected = 0;
  BoardText text;                // of the selected case
  std::optional<size_t> newest;  // the running case that began last: what to follow
  bool paused = false;           // asked for; the running step may still be finishing
  bool quitting = false;
  bool finished = false;       // the runner has ended
  double elapsed_seconds = 0;  // stands still while paused
  double prefill_rate = 0;     // tokens/s over the last seconds, of all running cases together
  double decode_rate = 0;
};

class Board {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = std::function<Clock::time_point()>;

  // `now` is for tests.
  explicit Board(std::vector<BoardCase> cases, Now now = Clock::now);

  const std::vector<BoardCase>& cases() const { return cases_; }

  // For the screen. Copies one small struct a case and the text of `selected` only, of that at most
  // the last `text_bytes_max` bytes of each part, cut between characters.
  BoardSnapshot snapshot(size_t selected, size_t text_bytes_max = size_t{1} << 16) const;
  uint64_t version() const;

  // Commands, from the screen. Pausing stops the clock at once and the runner after its step.
  void set_paused(bool paused);
  void toggle_paused();
  // Runs this case next, also one that is finished; a running case makes room for it.
  void run_next(size_t index);
  void quit();

  // For the runner. Waits while paused, unless quit; returns whether to go on.
  bool wait_while_paused();
  bool quit_requested() const;
  // Waits so long, or until something is asked for.
  void linger(std::chrono::milliseconds time);
  // The case asked for by run_next(), once.
  std::optional<size_t> take_next();

  // The runner's reports. begin() forgets what an earlier attempt said.
  void begin(size_t index, int64_t prompt_tokens, int64_t budget);
  void prefill(size_t index, int64_t done);
  // One more token, which completed this text (may be empty).
  void token(size_t index, bool thinking, int64_t budget_left, std::string_view reasoning,
             std::string_view content);
  void back_to_pending(size_t index);
  // Returns the seconds it took.
  double finish(size_t index, CaseStatus status, std::string note);
  void finish_run();

  double elapsed_seconds() const;

 private:
  struct Sample {
    double seconds;
    int64_t prefill, decode;
  };
  struct Entry {
    BoardRow row;
    BoardText text;
    double begun_at = 0;
    uint64_t order = 0;  // of begin()
  };

  double elapsed_locked() const;
  double elapsed_of(const Entry& entry) const;
  void sample(int64_t prefill, int64_t decode);
  void rates(BoardSnapshot& out) const;

  const std::vector<BoardCase> cases_;
  const Now now_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<Entry> entries_;
  std::deque<Sample> samples_;  // the last seconds
  int64_t prompt_tokens_ = 0, generated_tokens_ = 0;
  uint64_t version_ = 0, n_begun_ = 0;
  std::optional<size_t> next_;
  bool paused_ = false, quit_ = false, finished_ = false;
  double elapsed_before_ = 0;  // up to resumed_at_
  Clock::time_point resumed_at_;
};

}  // namespace ds4::eval
