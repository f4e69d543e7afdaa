#pragma once
// Sessions doing what comes to mind: prompts that continue, diverge, repeat or are something else,
// decoding alone and together, forks, snapshots kept and restored, cancellations, resets, sessions
// that end. After every operation the session is compared, bit for bit, with one that evaluated the
// same tokens in an engine without snapshots.
#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/session.h"
#include "tests/support/kv_state.h"
#include "tests/support/runner.h"
#include "tests/support/tiny_model.h"

namespace ds4::test {

class RandomSessions {
 public:
  static constexpr Token kUser = 1, kAnswer = 2;

  RandomSessions(BackendKind backend, uint32_t seed, int64_t ctx_tokens)
      : random_(seed), ctx_tokens_(ctx_tokens) {
    EngineOptions options{.backend = backend, .prefill_chunk_tokens = 48, .max_sessions = 4};
    options.snapshots = {.bytes_max = int64_t{12} << 20,  // tight: snapshots come and go
                         .every_tokens = 64,
                         .gap_tokens = 5,
                         .turn_marker = kUser,
                         .answer_marker = kAnswer};
    engine_ = must(Engine::create(model_.config(), model_.weights(), options));
    options.snapshots.bytes_max = 0;
    cold_engine_ = must(Engine::create(model_.config(), model_.weights(), options));
    cold_ = std::make_unique<Session>(must(Session::create(*cold_engine_, {ctx_tokens})));
    sessions_.push_back(new_session());
  }

  // One operation. Empty, or what was wrong and how it came about.
  std::string step() {
    ++n_steps_;
    const size_t at = pick(sessions_.size());
    Session& s = *sessions_[at];
    switch (pick(10)) {
      case 0:
        return sync("another prompt", s, text(1 + pick(200)));
      case 1:
        return sync("diverging", s, diverging(s));
      case 2:
        return sync("an older one again", s, old_.empty() ? text(9) : old_[pick(old_.size())]);
      case 3:
        return cancel(s, diverging(s));
      case 4:
        return fork(s);
      case 5:
        return keep_or_restore(s);
      case 6:
        return reset_or_end(at);
      case 7:
        return decode_together();
      default:
        return sync("continuing", s, joined(s.tokens(), text(1 + pick(60))));
    }
  }

  int64_t n_steps() const { return n_steps_; }
  int64_t n_reused() const { return n_reused_; }
  const Engine& engine() const { return *engine_; }

 private:
  size_t pick(size_t n) { return random_() % n; }
  std::unique_ptr<Session> new_session() {
    return std::make_unique<Session>(must(Session::create(*engine_, {ctx_tokens_})));
  }

  // Plain tokens with a turn here and there.
  std::vector<Token> text(size_t n) {
    std::vector<Token> tokens(n);
    for (Token& token : tokens) {
      const size_t kind = pick(40);
      token = kind == 0 ? kUser : kind == 1 ? kAnswer : static_cast<Token>(3 + pick(290));
    }
    return tokens;
  }
  static std::vector<Token> joined(std::span<const Token> a, std::span<const Token> b) {
    std::vector<Token> out(a.begin(), a.end());
    out.insert(out.end(), b.begin(), b.end());
    return out;
  }
  std::vector<Token> diverging(const Session& s) {
    const size_t kept = s.tokens().empty() ? 0 : pick(s.tokens().size());
    return joined(s.tokens().first(kept), text(1 + pick(80)));
  }

  // A snapshot in our hands keeps its pages from the sessions; without it there must be enough.
  template <typename Do>
  auto with_pages(Do&& run) {
    auto done = run();
    if (!done && done.error().code == ErrorCode::kOutOfMemory && kept_ != nullptr) {
      kept_ = nullptr;
      done = run();
    }
    return done;
  }

  std::string sync(const char* what, Session& s, std::vector<Token> prompt) {
    const auto stats = with_pages([&] { return s.sync(prompt); });
    if (std::ssize(prompt) > ctx_tokens_) {
      const bool full = !stats && stats.error().code == ErrorCode::kContextFull;
      return full ? compare("too long a prompt", s) : "a prompt beyond the context was accepted";
    }
    if (!stats) return std::string(what) + ": " + stats.error().message;
    if (!std::ranges::equal(s.tokens(), prompt)) return std::string(what) + ": other tokens";
    n_reused_ += stats->reused_tokens;
    old_.push_back(std::move(prompt));
    if (old_.size() > 20) old_.erase(old_.begin() + static_cast<std::ptrdiff_t>(pick(20)));
    return compare(what, s);
  }

  std::string cancel(Session& s, const std::vector<Token>& prompt) {
    std::stop_source stop;
    const auto stats = with_pages([&] {
      return s.sync(prompt, stop.get_token(), [&](int64_t, int64_t) {
        if (pick(2) == 0) stop.request_stop();
      });
    });
    if (!stats && stats.error().code != ErrorCode::kCancelled &&
        stats.error().code != ErrorCode::kContextFull) {
      return "cancelling: " + stats.error().message;
    }
    return compare("cancelled", s);
  }

  std::string fork(Session& s) {
    if (sessions_.size() >= 4) return decode_together();
    sessions_.push_back(std::make_unique<Session>(must(s.fork())));
    return compare("forked", *sessions_.back());
  }

  std::string keep_or_restore(Session& s) {
    if (kept_ == nullptr || pick(2) == 0) {
      kept_ = std::make_unique<Snapshot>(must(s.snapshot()));
      return compare("snapshot taken", s);
    }
    must(s.restore(*kept_));
    return compare("snapshot restored", s);
  }

  std::string reset_or_end(size_t at) {
    if (sessions_.size() == 1 || pick(2) == 0) {
      sessions_[at]->reset();
      return compare("reset", *sessions_[at]);
    }
    sessions_.erase(sessions_.begin() + static_cast<std::ptrdiff_t>(at));
    return compare("another ended", *sessions_.front());
  }

  // One to three tokens for every session, in one step.
  std::string decode_together() {
    std::vector<std::vector<Token>> tokens;
    std::vector<SessionStep> steps;
    tokens.reserve(sessions_.size());
    for (const auto& s : sessions_) {
      if (std::ssize(s->tokens()) + 3 > ctx_tokens_) continue;
      tokens.push_back(text(1 + pick(3)));
      steps.push_back({s.get(), tokens.back(),
                       tokens.back().size() == 1 ? SpanKind::kDecode : SpanKind::kPrefill});
    }
    if (steps.empty()) return reset_or_end(0);
    const auto done = with_pages([&] { return engine_->step(steps); });
    if (!done) return "together: " + done.error().message;
    return compare("decoded together", *steps[pick(steps.size())].session);
  }

  std::string compare(const char* what, const Session& s) {
    const std::string where = std::string(what) + ", step " + std::to_string(n_steps_) + ", " +
                              std::to_string(s.tokens().size()) + " tokens";
    cold_->reset();
    if (!s.tokens().empty()) must(cold_->sync(s.tokens()));
    if (!same_bits(s.logits(), cold_->logits())) return where + ": other logits";
    const Snapshot got = must(s.snapshot()), want = must(cold_->snapshot());
    const bool same = got.kv.state.size_bytes() == want.kv.state.size_bytes() &&
                      std::memcmp(got.kv.state.data(), want.kv.state.data(),
                                  static_cast<size_t>(want.kv.state.size_bytes())) == 0;
    return same ? std::string() : where + ": another state";
  }

  std::mt19937 random_;
  const int64_t ctx_tokens_;
  TinyModel model_;
  std::unique_ptr<Engine> engine_, cold_engine_;
  std::unique_ptr<Session> cold_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::unique_ptr<Snapshot> kept_;
  std::vector<std::vector<Token>> old_;
  int64_t n_steps_ = 0;
  int64_t n_reused_ = 0;
};

}  // namespace ds4::test
