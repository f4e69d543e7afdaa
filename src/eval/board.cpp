#include "eval/board.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ds4::eval {
namespace {

constexpr double kRateSeconds = 5;  // how far back a rate looks

// The last `bytes_max` bytes of `text`, from the start of a character on.
std::string tail(const std::string& text, size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  size_t begin = text.size() - bytes_max;
  while (begin < text.size() && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) ++begin;
  return text.substr(begin);
}

void count(CaseStatus status, BoardTotals& totals) {
  switch (status) {
    case CaseStatus::kPending:
      ++totals.pending;
      break;
    case CaseStatus::kPrefill:
    case CaseStatus::kThinking:
    case CaseStatus::kAnswer:
      ++totals.running;
      break;
    case CaseStatus::kPassed:
      ++totals.passed;
      break;
    case CaseStatus::kFailed:
      ++totals.failed;
      break;
    case CaseStatus::kSkipped:
      ++totals.skipped;
      break;
    case CaseStatus::kStopped:
      ++totals.stopped;
      break;
    case CaseStatus::kError:
      ++totals.errors;
      break;
  }
}

}  // namespace

const char* name_of(CaseStatus status) {
  switch (status) {
    case CaseStatus::kPending:
      return "pending";
    case CaseStatus::kPrefill:
      return "prefill";
    case CaseStatus::kThinking:
      return "thinking";
    case CaseStatus::kAnswer:
      return "answer";
    case CaseStatus::kPassed:
      return "passed";
    case CaseStatus::kFailed:
      return "failed";
    case CaseStatus::kSkipped:
      return "skipped";
    case CaseStatus::kStopped:
      return "stopped";
    case CaseStatus::kError:
      return "error";
  }
  return "";
}

bool is_running(CaseStatus status) {
  return status == CaseStatus::kPrefill || status == CaseStatus::kThinking ||
         status == CaseStatus::kAnswer;
}

bool is_finished(CaseStatus status) {
  return status != CaseStatus::kPending && !is_running(status);
}

Board::Board(std::vector<BoardCase> cases, Now now)
    : cases_(std::move(cases)),
      now_(std::move(now)),
      entries_(cases_.size()),
      resumed_at_(now_()) {}

double Board::elapsed_locked() const {
  if (paused_ || finished_) return elapsed_before_;
  return elapsed_before_ + std::chrono::duration<double>(now_() - resumed_at_).count();
}

double Board::elapsed_seconds() const {
  const std::lock_guard lock(mutex_);
  return elapsed_locked();
}

double Board::elapsed_of(const Entry& entry) const {
  return is_running(entry.row.status) ? elapsed_locked() - entry.begun_at
                                      : entry.row.elapsed_seconds;
}

void Board::sample(int64_t prefill, int64_t decode) {
  prompt_tokens_ += prefill;
  generated_tokens_ += decode;
  const double seconds = elapsed_locked();
  // A sample a tenth of a second keeps the list short whatever the rate.
  if (samples_.empty() || seconds - samples_.back().seconds > 0.1) {
    samples_.push_back({seconds, 0, 0});
  }
  samples_.back().prefill += prefill;
  samples_.back().decode += decode;
  while (seconds - samples_.front().seconds > kRateSeconds) samples_.pop_front();
}

void Board::rates(BoardSnapshot& out) const {
  const double now = out.elapsed_seconds;
  const double seconds = std::min(now, kRateSeconds);
  if (seconds <= 0) return;
  int64_t prefill = 0, decode = 0;
  for (const Sample& s : samples_) {
    if (now - s.seconds > kRateSeconds) continue;
    prefill += s.prefill;
    decode += s.decode;
  }
  out.prefill_rate = static_cast<double>(prefill) / seconds;
  out.decode_rate = static_cast<double>(decode) / seconds;
}

BoardSnapshot Board::snapshot(size_t selected, size_t text_bytes_max) const {
  BoardSnapshot out;
  out.rows.reserve(cases_.size());
  const std::lock_guard lock(mutex_);
  out.version = version_;
  out.paused = paused_;
  out.quitting = quit_;
  out.finished = finished_;
  out.elapsed_seconds = elapsed_locked();
  out.totals.prompt_tokens = prompt_tokens_;
  out.totals.generated_tokens = generated_tokens_;
  uint64_t newest = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    out.rows.push_back(entry.row);
    out.rows.back().elapsed_seconds = elapsed_of(entry);
    count(entry.row.status, out.totals);
    if (is_running(entry.row.status) && entry.order > newest) {
      newest = entry.order;
      out.newest = i;
    }
  }
  rates(out);
  if (entries_.empty()) return out;
  out.selected = std::min(selected, entries_.size() - 1);
  const BoardText& text = entries_[out.selected].text;
  out.text = {tail(text.reasoning, text_bytes_max), tail(text.content, text_bytes_max), text.note};
  return out;
}

uint64_t Board::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

void Board::set_paused(bool paused) {
  const std::lock_guard lock(mutex_);
  if (paused == paused_ || finished_) return;
  if (paused) {
    elapsed_before_ = elapsed_locked();
  } else {
    resumed_at_ = now_();
  }
  paused_ = paused;
  ++version_;
  changed_.notify_all();
}

void Board::toggle_paused() {
  bool paused = false;
  {
    const std::lock_guard lock(mutex_);
    paused = paused_;
  }
  set_paused(!paused);
}

void Board::run_next(size_t index) {
  const std::lock_guard lock(mutex_);
  if (index >= entries_.size()) return;
  next_ = index;
  ++version_;
  changed_.notify_all();
}

void Board::quit() {
  const std::lock_guard lock(mutex_);
  quit_ = true;
  ++version_;
  changed_.notify_all();
}

bool Board::wait_while_paused() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !paused_ || quit_; });
  return !quit_;
}

bool Board::quit_requested() const {
  const std::lock_guard lock(mutex_);
  return quit_;
}

void Board::linger(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time, [&] { return paused_ || quit_ || next_.has_value(); });
}

std::optional<size_t> Board::take_next() {
  const std::lock_guard lock(mutex_);
  return std::exchange(next_, std::nullopt);
}

void Board::begin(size_t index, int64_t prompt_tokens, int64_t budget) {
  const std::lock_guard lock(mutex_);
  DS4_CHECK(index < entries_.size());
  Entry& entry = entries_[index];
  entry = {};
  entry.row.status = CaseStatus::kPrefill;
  entry.row.prompt_tokens = prompt_tokens;
  entry.row.budget_left = budget;
  entry.begun_at = elapsed_locked();
  entry.order = ++n_begun_;
  ++version_;
}

void Board::prefill(size_t index, int64_t done) {
  const std::lock_guard lock(mutex_);
  DS4_CHECK(index < entries_.size());
  BoardRow& row = entries_[index].row;
  sample(done - row.prompt_done, 0);
  row.prompt_done = done;
  ++version_;
}

void Board::token(size_t index, bool thinking, int64_t budget_left, std::string_view reasoning,
                  std::string_view content) {
  const std::lock_guard lock(mutex_);
  DS4_CHECK(index < entries_.size());
  Entry& entry = entries_[index];
  entry.row.status = thinking ? CaseStatus::kThinking : CaseStatus::kAnswer;
  entry.row.budget_left = budget_left;
  ++entry.row.generated_tokens;
  entry.text.reasoning += reasoning;
  entry.text.content += content;
  sample(0, 1);
  ++version_;
}

void Board::back_to_pending(size_t index) {
  const std::lock_guard lock(mutex_);
  DS4_CHECK(index < entries_.size());
  entries_[index] = {};
  ++version_;
}

double Board::finish(size_t index, CaseStatus status, std::string note) {
  const std::lock_guard lock(mutex_);
  DS4_CHECK(index < entries_.size());
  DS4_CHECK(is_finished(status));
  Entry& entry = entries_[index];
  entry.row.elapsed_seconds = elapsed_of(entry);
  entry.row.status = status;
  entry.text.note = std::move(note);
  ++version_;
  return entry.row.elapsed_seconds;
}

void Board::finish_run() {
  const std::lock_guard lock(mutex_);
  elapsed_before_ = elapsed_locked();
  finished_ = true;
  ++version_;
}

}  // namespace ds4::eval
