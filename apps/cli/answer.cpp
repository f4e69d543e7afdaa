#include "answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/log.h"
#include "chat/render.h"
#include "engine/session.h"
#include "memory.h"
#include "terminal.h"

namespace ds4::cli {
namespace {

using Clock = std::chrono::steady_clock;

Result<std::vector<Token>> prompt_tokens(const Model& model, const Tokenizer& tokenizer,
                                         const std::string& prompt, const Options& options) {
  if (options.raw_prompt) {
    std::vector<Token> tokens = tokenizer.encode_text(prompt);
    tokens.insert(tokens.begin(), tokenizer.special().bos);
    return tokens;
  }
  Conversation conversation;
  const auto say = [&](Role role, const std::string& text) {
    Message& message = conversation.messages.emplace_back();
    message.role = role;
    message.content = text;
  };
  if (!options.system.empty()) say(Role::kSystem, options.system);
  say(Role::kUser, prompt);
  const std::string metadata = model.effort_profile().value_or("");
  const std::string name = model.general_name();
  DS4_TRY(
      const EffortProfile profile,
      select_effort_profile(options.effort_profile, {.metadata = metadata, .model_name = name}));
  return render_tokens(conversation, {.thinking = options.thinking, .profile = profile}, tokenizer);
}

// What the last line reports.
struct Timing {
  int64_t prompt_tokens = 0;
  double prompt_seconds = 0;
  int64_t answer_tokens = 0;
  double answer_seconds = 0;
};

void print_timing(const Timing& t, const char* how_it_ended) {
  const auto rate = [](int64_t n, double seconds) {
    return seconds > 0 ? static_cast<double>(n) / seconds : 0.0;
  };
  fmt::print(stderr, "prompt {} tokens, {:.1f} t/s; answer {} tokens, {:.1f} t/s{}\n",
             t.prompt_tokens, rate(t.prompt_tokens, t.prompt_seconds), t.answer_tokens,
             rate(t.answer_tokens, t.answer_seconds), how_it_ended);
}

// Reads the prompt into the session. False when interrupted.
Result<bool> prefill(Session& session, std::span<const Token> prompt, Timing& timing,
                     const volatile std::sig_atomic_t& interrupted) {
  std::stop_source stop;
  PrefillProgress progress;
  const Clock::time_point start = Clock::now();
  const auto synced = session.sync(prompt, stop.get_token(), [&](int64_t done, int64_t total) {
    progress.update(done, total);
    if (interrupted != 0) stop.request_stop();
  });
  progress.clear();
  timing.prompt_tokens = static_cast<int64_t>(session.tokens().size());
  timing.prompt_seconds = seconds_since(start);
  if (!synced && synced.error().code == ErrorCode::kCancelled) return false;
  if (!synced) return tl::unexpected(synced.error());
  return true;
}

void print_profile(const TraceOps& trace) {
  fmt::print(stderr, "prefill, time of each operation:\n{}",
             profile_table(trace.profile(TraceOps::Phase::kPrefill)));
  fmt::print(stderr, "decode, time of each operation:\n{}",
             profile_table(trace.profile(TraceOps::Phase::kDecode)));
}

enum class Ended { kDone, kLength, kContext, kInterrupted };

// Samples until the turn ends, the limit or the context is reached, or Ctrl-C.
Result<Ended> generate(Session& session, const Tokenizer& tokenizer, const Options& options,
                       Timing& timing, const volatile std::sig_atomic_t& interrupted) {
  Sampler sampler(options.sampler, tokenizer.size());
  // Raw text has no turns: it is all content.
  const ThinkingMode mode = options.raw_prompt ? ThinkingMode::kChat : options.thinking.mode;
  OutputSplitter splitter(tokenizer.special(), mode);
  AnswerPrinter printer(options.hide_thinking);
  Ended ended = Ended::kLength;
  const Clock::time_point start = Clock::now();
  while (timing.answer_tokens < options.max_tokens) {
    if (interrupted != 0) {
      ended = Ended::kInterrupted;
      break;
    }
    DS4_TRY(const Token token, sampler.sample(session.logits()));
    if (tokenizer.special().ends_turn(token)) {
      ended = Ended::kDone;
      break;
    }
    ++timing.answer_tokens;
    DS4_TRY_VOID(printer.print(splitter.push(token, tokenizer.bytes_of(token))));
    if (static_cast<int64_t>(session.tokens().size()) == session.ctx_tokens()) {
      ended = Ended::kContext;
      break;
    }
    DS4_TRY_VOID(session.decode(token));
  }
  timing.answer_seconds = seconds_since(start);
  DS4_TRY_VOID(printer.print(splitter.finish()));
  DS4_TRY_VOID(printer.finish());
  return ended;
}

const char* describe(Ended ended) {
  switch (ended) {
    case Ended::kDone:
      return "";
    case Ended::kLength:
      return "; stopped at the token limit (-n)";
    case Ended::kContext:
      return "; stopped at the end of the context (-c)";
    case Ended::kInterrupted:
      return "; interrupted";
  }
  return "";
}

}  // namespace

Result<int> answer(Model model, const Tokenizer& tokenizer, const std::string& prompt,
                   const Options& options, const volatile std::sig_atomic_t& interrupted) {
  DS4_TRY(const std::vector<Token> tokens, prompt_tokens(model, tokenizer, prompt, options));
  DS4_TRY_VOID(check_memory_plan(model, options));
  DS4_TRY(const std::unique_ptr<Engine> engine,
          Engine::create(std::move(model), {.backend = options.backend,
                                            .n_threads = options.n_threads,
                                            .precision = options.precision,
                                            .prefill_chunk_tokens = options.prefill_chunk_tokens,
                                            .max_sessions = 1,
                                            .profile_ops = options.profile_ops}));
  DS4_TRY(Session session, Session::create(*engine, {.ctx_tokens = options.ctx_tokens}));
  log::info("cli", "{} on {}", engine->model().general_name(), engine->device().description());
  Timing timing;
  DS4_TRY(const bool read, prefill(session, tokens, timing, interrupted));
  if (!read) {
    print_timing(timing, "; interrupted while reading the prompt");
    return kExitInterrupted;
  }
  if (TraceOps* trace = engine->op_trace()) trace->set_phase(TraceOps::Phase::kDecode);
  DS4_TRY(const Ended ended, generate(session, tokenizer, options, timing, interrupted));
  print_timing(timing, describe(ended));
  if (const TraceOps* trace = engine->op_trace()) print_profile(*trace);
  return ended == Ended::kInterrupted ? kExitInterrupted : 0;
}

void dump_tokens(const Tokenizer& tokenizer, const std::string& prompt) {
  for (const Token token : tokenizer.encode_rendered(prompt)) {
    std::string piece;
    for (const char c : tokenizer.bytes_of(token)) {
      const unsigned char byte = static_cast<unsigned char>(c);
      if (byte == '\\') {
        piece += "\\\\";
      } else if (byte == '\n') {
        piece += "\\n";
      } else if (byte < 0x20 || byte == 0x7f) {
        piece += fmt::format("\\x{:02x}", byte);
      } else {
        piece += c;
      }
    }
    fmt::print("{:>6} '{}'\n", token, piece);
  }
}

}  // namespace ds4::cli
