#include "eval/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/check.h"
#include "eval/grade.h"
#include "eval/text.h"

namespace ds4::eval {
namespace {

int64_t unix_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

Outcome blank_outcome(const Case& c, const Prompt& prompt, size_t index) {
  Outcome o;
  o.index = index;
  o.id = c.id;
  o.source = c.source;
  o.domain = c.domain;
  o.title = c.title;
  o.answer_kind = c.expected.kind;
  o.n_choices = c.expected.n_choices;
  o.expected = to_text(c.expected);
  o.thinking = prompt.thinking.mode == ThinkingMode::kThinking;
  o.prompt_tokens = std::ssize(prompt.tokens);
  return o;
}

}  // namespace

Runner::Runner(std::span<const Case> cases, std::span<const Prompt> prompts,
               const Tokenizer& tokenizer, Decoder& decoder, Board& board,
               const RunOptions& options, RunHooks hooks)
    : cases_(cases),
      prompts_(prompts),
      tokenizer_(tokenizer),
      decoder_(decoder),
      board_(board),
      options_(options),
      hooks_(std::move(hooks)),
      lanes_(decoder.n_lanes()),
      queue_(cases.size()) {
  DS4_CHECK(cases.size() == prompts.size());
  DS4_CHECK(cases.size() == board.cases().size());
  std::iota(queue_.begin(), queue_.end(), size_t{0});
  for (size_t i = 0; i < cases.size(); ++i) {
    outcomes_.push_back(blank_outcome(cases[i], prompts[i], i));
  }
}

Result<void> Runner::run() {
  auto done = go();
  if (!done) ended_early_ = true;
  stop_lanes();
  board_.finish_run();
  return done;
}

Result<void> Runner::go() {
  while (keep_going()) {
    take_command();
    DS4_TRY_VOID(fill_lanes());
    const bool busy =
        std::ranges::any_of(lanes_, [](const Lane& lane) { return lane.index.has_value(); });
    if (!busy && queue_.empty()) return {};
    if (busy) DS4_TRY_VOID(step());
  }
  ended_early_ = true;
  return {};
}

// False when the run is to end. Waits while paused.
bool Runner::keep_going() {
  if (hooks_.interrupted && hooks_.interrupted()) return false;
  return board_.wait_while_paused();
}

// A case to run next goes to the front; when all lanes are busy the one that began last makes room
// and comes right behind it.
void Runner::take_command() {
  const auto index = board_.take_next();
  if (!index) return;
  const auto holds = [&](const Lane& lane) { return lane.index == *index; };
  if (std::ranges::any_of(lanes_, holds)) return;
  std::erase(queue_, *index);
  const bool all_busy =
      std::ranges::all_of(lanes_, [](const Lane& lane) { return lane.index.has_value(); });
  if (all_busy) {
    Lane& newest = *std::ranges::max_element(lanes_, {}, &Lane::order);
    board_.back_to_pending(*newest.index);
    queue_.push_front(*newest.index);
    newest = {};
  }
  outcomes_[*index] = blank_outcome(cases_[*index], prompts_[*index], *index);
  queue_.push_front(*index);
}

Result<void> Runner::fill_lanes() {
  for (size_t i = 0; i < lanes_.size() && !queue_.empty(); ++i) {
    if (lanes_[i].index) continue;
    const size_t index = queue_.front();
    queue_.pop_front();
    DS4_TRY_VOID(start(i, index));
  }
  return {};
}

Result<void> Runner::start(size_t number, size_t index) {
  const Prompt& prompt = prompts_[index];
  const int64_t n = std::ssize(prompt.tokens);
  AnswerOptions options = options_.answer;
  options.max_tokens = std::min(options.max_tokens, decoder_.ctx_tokens() - n);
  // A seed of its own, so that what a case says does not hang on which ones came before.
  options.sampler.seed += index;
  board_.begin(index, n, std::max<int64_t>(options.max_tokens, 0));
  if (options.max_tokens < 1) {
    finish(index, CaseStatus::kSkipped, nullptr,
           fmt::format("the prompt has {} tokens, the context holds {}: no room for an answer", n,
                       decoder_.ctx_tokens()));
    return {};
  }
  Lane& lane = lanes_[number];
  lane.index = index;
  lane.order = ++n_started_;
  const auto read = decoder_.read_prompt(number, prompt.tokens, [&](int64_t done, int64_t) {
    board_.prefill(index, done);
    return keep_going();
  });
  if (read) {
    lane.answer =
        std::make_unique<AnswerRun>(tokenizer_, options, prompt.thinking.mode,
                                    cases_[index].expected.kind == AnswerKind::kToolCalls);
    return {};
  }
  if (read.error().code == ErrorCode::kCancelled) return {};  // go() ends, and so does the lane
  lane = {};
  finish(index, CaseStatus::kError, nullptr, read.error().message);
  if (read.error().code == ErrorCode::kDevice) return read;
  return {};
}

// Lets every lane choose a token, then evaluates them together.
Result<void> Runner::step() {
  tokens_.clear();
  for (size_t i = 0; i < lanes_.size(); ++i) {
    if (lanes_[i].answer) say(lanes_[i], i, tokens_);
  }
  if (tokens_.empty()) return {};
  return decoder_.decode(tokens_);
}

void Runner::say(Lane& lane, size_t number, std::vector<LaneToken>& out) {
  const size_t index = *lane.index;
  AnswerRun& answer = *lane.answer;
  const auto step = answer.next(decoder_.logits(number));
  if (!step) {
    finish(index, CaseStatus::kError, &answer, step.error().message);
    lane = {};
    return;
  }
  if (step->said) {
    board_.token(index, answer.thinking(), answer.remaining(), step->reasoning, step->content);
  }
  if (step->token) {
    out.push_back({number, *step->token});
    return;
  }
  const std::unique_ptr<AnswerRun> done = std::move(lane.answer);
  lane = {};
  finish(index, CaseStatus::kPassed, done.get(), {});
}

void Runner::grade_answer(Outcome& o, const Case& c) const {
  const Grade g = grade(
      c.expected,
      {.raw = o.output, .thinking = o.thinking, .finish = o.finish, .tools = c.conversation.tools});
  o.picked = g.picked;
  o.status = g.passed ? CaseStatus::kPassed : CaseStatus::kFailed;
}

// `status` kPassed stands for an answer to be graded.
void Runner::finish(size_t index, CaseStatus status, const AnswerRun* answer, std::string error) {
  Outcome& o = outcomes_[index];
  o.status = status;
  o.error = std::move(error);
  o.finished_unix = unix_now();
  if (answer != nullptr) {
    o.output = answer->raw();
    o.generated_tokens = answer->generated();
    o.think_close = answer->think_close();
    o.finish = answer->finish();
  }
  if (status == CaseStatus::kPassed) grade_answer(o, cases_[index]);
  std::string note = o.error;
  if (o.status == CaseStatus::kFailed) {
    note = fmt::format("picked {}, expected {}", shown(o.picked), shown(o.expected));
  }
  o.elapsed_seconds = board_.finish(index, o.status, std::move(note));
  if (hooks_.on_outcome && o.status != CaseStatus::kStopped) hooks_.on_outcome(o);
  if (o.status != CaseStatus::kStopped && options_.pause_ms > 0 && lanes_.size() == 1) {
    board_.linger(std::chrono::milliseconds(options_.pause_ms));
  }
}

void Runner::stop_lanes() {
  for (Lane& lane : lanes_) {
    if (lane.index) finish(*lane.index, CaseStatus::kStopped, lane.answer.get(), {});
    lane = {};
  }
}

}  // namespace ds4::eval
