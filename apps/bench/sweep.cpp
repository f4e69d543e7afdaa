#include "sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "power.h"

namespace ds4::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double rate(int64_t n, double seconds) {
  return seconds > 0 ? static_cast<double>(n) / seconds : 0.0;
}

double median(const std::vector<double>& values) { return percentile(values, 0.5); }

tl::unexpected<Error> cancelled(const char* doing) {
  return fail(ErrorCode::kCancelled, fmt::format("interrupted during {}", doing));
}

}  // namespace

std::vector<int64_t> frontiers(int64_t start, int64_t max, double mul, int64_t incr) {
  std::vector<int64_t> found;
  for (int64_t at = start; at < max;) {
    found.push_back(at);
    if (mul > 1) {
      const double next = std::ceil(static_cast<double>(at) * mul);
      at = next >= static_cast<double>(max) ? max : std::max(at + 1, static_cast<int64_t>(next));
    } else {
      at = incr >= max - at ? max : at + incr;
    }
  }
  found.push_back(max);
  return found;
}

Result<Token> best_token_except(std::span<const float> logits, Token excluded) {
  Token best = -1;
  for (Token id = 0; id < static_cast<Token>(logits.size()); ++id) {
    const float logit = logits[static_cast<size_t>(id)];
    if (id == excluded || !std::isfinite(logit)) continue;
    if (best < 0 || logit > logits[static_cast<size_t>(best)]) best = id;
  }
  if (best < 0) {
    return fail(ErrorCode::kNonFinite,
                fmt::format("the model's logits are not finite: none of {}", logits.size()));
  }
  return best;
}

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const double n = static_cast<double>(values.size());
  const double rank = std::clamp(std::ceil(share * n), 1.0, n);
  const size_t i = static_cast<size_t>(rank) - 1;
  // The median of an even number lies between two of them.
  if (share == 0.5 && values.size() % 2 == 0) return (values[i] + values[i + 1]) / 2;
  return values[i];
}

Result<Sweep> Sweep::create(Engine& engine, std::span<const Token> prompt,
                            const SweepOptions& options, SweepHooks hooks) {
  Sweep sweep(engine, options, std::move(hooks));
  for (int64_t i = 0; i < options.batch; ++i) {
    DS4_TRY(Session session, Session::create(engine, {.ctx_tokens = options.ctx_alloc}));
    Lane& lane = sweep.lanes_.emplace_back(Lane{std::move(session), {}, std::nullopt});
    // Every text begins with the same token, the one that begins texts.
    lane.text.assign(prompt.begin(), prompt.begin() + 1);
    const auto rest = prompt.subspan(static_cast<size_t>(1 + i * options.batch_offset));
    lane.text.insert(lane.text.end(), rest.begin(), rest.end());
  }
  sweep.steps_.resize(static_cast<size_t>(options.batch));
  sweep.chosen_.resize(static_cast<size_t>(options.batch));
  return sweep;
}

// Seconds. A session that is interrupted holds what was read.
Result<double> Sweep::prefill(Lane& lane, int64_t frontier, const char* doing) {
  std::stop_source stop;
  const int64_t from = std::ssize(lane.session.tokens());
  const auto step = [&](int64_t done, int64_t) {
    if (hooks_.progress) hooks_.progress(doing, done - from, frontier - from);
    if (hooks_.interrupted && hooks_.interrupted()) stop.request_stop();
  };
  step(from, frontier);
  const auto prompt = std::span(lane.text).first(static_cast<size_t>(frontier));
  const Clock::time_point start = Clock::now();
  DS4_TRY_VOID(lane.session.sync(prompt, stop.get_token(), step));
  return seconds_since(start);
}

// Seconds for `n_tokens` of every session.
Result<double> Sweep::decode(int64_t n_tokens, std::vector<double>& step_ms) {
  const Clock::time_point start = Clock::now();
  Clock::time_point last = start;
  for (int64_t n = 0; n < n_tokens; ++n) {
    if (hooks_.interrupted && hooks_.interrupted()) return cancelled("the answer");
    for (size_t i = 0; i < lanes_.size(); ++i) {
      DS4_TRY(chosen_[i], best_token_except(lanes_[i].session.logits(), options_.eos));
      if (hooks_.on_token) hooks_.on_token(static_cast<int64_t>(i), chosen_[i]);
      steps_[i] = {
          .session = &lanes_[i].session, .tokens = {&chosen_[i], 1}, .kind = SpanKind::kDecode};
    }
    DS4_TRY_VOID(engine_->step(steps_));
    const Clock::time_point now = Clock::now();
    step_ms.push_back(std::chrono::duration<double, std::milli>(now - last).count());
    last = now;
    if (hooks_.progress) hooks_.progress("answering", n + 1, n_tokens);
  }
  return seconds_since(start);
}

Result<void> Sweep::warm_up(int64_t n_tokens) {
  // A whole chunk also touches all of the workspace; with a large model it takes longer than that
  // is worth.
  constexpr int64_t kShort = 64;
  constexpr double kShortSeconds = 0.5;
  std::vector<double> unused;
  for (Lane& lane : lanes_) {
    DS4_TRY(const double seconds, prefill(lane, std::min(n_tokens, kShort), "warming up"));
    if (n_tokens > kShort && seconds < kShortSeconds) {
      DS4_TRY_VOID(prefill(lane, n_tokens, "warming up"));
    }
  }
  if (options_.gen_tokens > 0) {
    DS4_TRY_VOID(decode(std::min<int64_t>(2, options_.gen_tokens), unused));
  }
  for (Lane& lane : lanes_) lane.session.reset();
  return {};
}

Result<void> Sweep::go_back() {
  Lane& lane = lanes_.front();
  // Dropped first: its pages are written again.
  lane.here.reset();
  if (before_) return lane.session.restore(*before_);
  lane.session.reset();
  return {};
}

Result<Row> Sweep::measure(int64_t frontier) {
  Lane& first = lanes_.front();
  Row row{.ctx_tokens = frontier,
          .prefill_tokens = frontier - previous_,
          .gen_tokens = options_.gen_tokens,
          .batch = options_.batch};
  std::vector<double> prefills, decodes, choices, powers, step_ms;
  for (int64_t r = 0; r < options_.repeat; ++r) {
    if (r > 0) DS4_TRY_VOID(go_back());
    DS4_TRY(const double prefill_seconds, prefill(first, frontier, "reading"));
    prefills.push_back(prefill_seconds);
    const Clock::time_point start = Clock::now();
    DS4_TRY_VOID(best_token_except(first.session.logits(), options_.eos));
    choices.push_back(seconds_since(start));
    if (r == 0) {
      for (Lane& other : std::span(lanes_).subspan(1)) {
        DS4_TRY_VOID(prefill(other, frontier, "reading for the other sessions"));
        DS4_TRY(other.here, other.session.snapshot());
      }
      row.kvcache_bytes = first.session.state_bytes();
      if (hooks_.on_frontier) DS4_TRY_VOID(hooks_.on_frontier(first.session, row.prefill_tokens));
    }
    DS4_TRY(first.here, first.session.snapshot());
    if (options_.gen_tokens == 0) continue;
    const PowerMeter meter = PowerMeter::start();
    DS4_TRY(const double decode_seconds, decode(options_.gen_tokens, step_ms));
    if (const auto watts = meter.watts()) powers.push_back(*watts);
    decodes.push_back(decode_seconds);
    if (r + 1 == options_.repeat) row.mem_bytes = resident_bytes();
    for (Lane& lane : lanes_) DS4_TRY_VOID(lane.session.restore(*lane.here));
  }
  if (!row.mem_bytes) row.mem_bytes = resident_bytes();
  row.prefill_tps = rate(row.prefill_tokens, median(prefills));
  prefill_seconds_ += median(prefills);
  row.ttft_ms = (prefill_seconds_ + median(choices)) * 1e3;
  if (!decodes.empty()) {
    row.gen_tps = rate(row.gen_tokens * row.batch, median(decodes));
    row.gen_p50_ms = percentile(step_ms, 0.5);
    row.gen_p95_ms = percentile(step_ms, 0.95);
  }
  if (!powers.empty()) row.power_w = median(powers);
  // Only the first session goes back further than here, and only to repeat.
  before_ = options_.repeat > 1 ? std::move(first.here) : std::nullopt;
  for (Lane& lane : lanes_) lane.here.reset();
  previous_ = frontier;
  return row;
}

}  // namespace ds4::bench
