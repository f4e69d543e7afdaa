#include "turn.h"

#include <chrono>

#include "signals.h"

namespace ds4::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Reads the prompt into the session. False when interrupted.
Result<bool> read_prompt(Session& session, std::span<const Token> prompt, const TurnHooks& hooks,
                         TurnReport& report) {
  std::stop_source stop;
  if (interrupted()) stop.request_stop();
  PrefillProgress progress(hooks.screen, "reading the prompt");
  const Clock::time_point start = Clock::now();
  const auto synced = session.sync(prompt, stop.get_token(), [&](int64_t done, int64_t total) {
    progress.update(done, total);
    if (interrupted()) stop.request_stop();
  });
  progress.clear();
  report.prompt_seconds = seconds_since(start);
  report.prompt_tokens = static_cast<int64_t>(session.tokens().size());
  if (!synced && synced.error().code == ErrorCode::kCancelled) return false;
  if (!synced) return tl::unexpected(synced.error());
  report.sync = *synced;
  if (hooks.on_prompt) hooks.on_prompt(report);
  return true;
}

// Prints chunks as they come and keeps their text.
Result<void> take(const std::vector<OutputChunk>& chunks, AnswerPrinter* printer,
                  TurnReport& report) {
  for (const OutputChunk& chunk : chunks) {
    (chunk.channel == Channel::kReasoning ? report.reasoning : report.content) += chunk.text;
  }
  if (printer == nullptr) return {};
  return printer->print(chunks);
}

// Samples until the turn ends, the limit or the context is reached, or Ctrl-C.
Result<void> answer(Session& session, const Tokenizer& tokenizer, Sampler& sampler,
                    const TurnRequest& request, const TurnHooks& hooks, TurnReport& report) {
  OutputSplitter splitter(tokenizer.special(), request.mode);
  report.ended = Ended::kLength;
  while (report.answer_tokens < request.max_tokens) {
    if (interrupted()) {
      report.ended = Ended::kInterrupted;
      break;
    }
    DS4_TRY(const Token token, sampler.sample(session.logits()));
    if (hooks.on_token) hooks.on_token(token, session.logits());
    if (tokenizer.special().ends_turn(token)) {
      report.ended = Ended::kDone;
      break;
    }
    ++report.answer_tokens;
    DS4_TRY_VOID(take(splitter.push(token, tokenizer.bytes_of(token)), hooks.printer, report));
    if (static_cast<int64_t>(session.tokens().size()) == session.ctx_tokens()) {
      report.ended = Ended::kContext;
      break;
    }
    DS4_TRY_VOID(session.decode(token));
  }
  return take(splitter.finish(), hooks.printer, report);
}

}  // namespace

Result<TurnReport> run_turn(Session& session, const Tokenizer& tokenizer, Sampler& sampler,
                            const TurnRequest& request, const TurnHooks& hooks) {
  TurnReport report;
  if (hooks.ops != nullptr) hooks.ops->set_phase(TraceOps::Phase::kPrefill);
  DS4_TRY(const bool read, read_prompt(session, request.prompt, hooks, report));
  if (!read) {
    report.ended = Ended::kInterruptedPrompt;
    return report;
  }
  if (hooks.ops != nullptr) hooks.ops->set_phase(TraceOps::Phase::kDecode);
  const Clock::time_point start = Clock::now();
  DS4_TRY_VOID(answer(session, tokenizer, sampler, request, hooks, report));
  report.answer_seconds = seconds_since(start);
  if (hooks.printer != nullptr) DS4_TRY_VOID(hooks.printer->finish());
  return report;
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
    case Ended::kInterruptedPrompt:
      return "; interrupted while reading the prompt";
  }
  return "";
}

const char* name_of(Ended ended) {
  switch (ended) {
    case Ended::kDone:
      return "done";
    case Ended::kLength:
      return "length";
    case Ended::kContext:
      return "context";
    case Ended::kInterrupted:
      return "interrupted";
    case Ended::kInterruptedPrompt:
      return "interrupted_prompt";
  }
  return "";
}

}  // namespace ds4::cli
