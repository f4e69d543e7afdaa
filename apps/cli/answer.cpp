#include "answer.h"

#include <fmt/format.h>

#include "base/log.h"
#include "chat/render.h"
#include "dump.h"
#include "engine/session.h"
#include "memory.h"
#include "signals.h"
#include "terminal.h"
#include "turn.h"

namespace ds4::cli {
namespace {

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
  DS4_TRY(const EffortProfile profile, effort_profile_of(model, options));
  return render_tokens(conversation, {.thinking = options.thinking, .profile = profile}, tokenizer);
}

// The last line of an answer.
void print_timing(const TurnReport& r) {
  const auto rate = [](int64_t n, double seconds) {
    return seconds > 0 ? static_cast<double>(n) / seconds : 0.0;
  };
  print_error(fmt::format("prompt {} tokens, {:.1f} t/s; answer {} tokens, {:.1f} t/s{}\n",
                          r.prompt_tokens, rate(r.prompt_tokens, r.prompt_seconds), r.answer_tokens,
                          rate(r.answer_tokens, r.answer_seconds), describe(r.ended)));
}

Result<int> print_answer(const Engine& engine, Session& session, const Tokenizer& tokenizer,
                         std::span<const Token> prompt, const Options& options, Trace& trace) {
  Sampler sampler(options.sampler, tokenizer.size());
  AnswerPrinter printer(options.screen, options.hide_thinking);
  TurnHooks hooks{.screen = options.screen, .printer = &printer, .ops = engine.op_trace()};
  trace.attach(hooks, tokenizer);
  // Raw text has no turns: it is all content.
  const ThinkingMode mode = options.raw_prompt ? ThinkingMode::kChat : options.thinking.mode;
  DS4_TRY(const TurnReport report,
          run_turn(session, tokenizer, sampler,
                   {.prompt = prompt, .mode = mode, .max_tokens = options.max_tokens}, hooks));
  trace.turn(report);
  print_timing(report);
  print_profile(engine);
  return interrupted() ? kExitInterrupted : 0;
}

}  // namespace

Result<EffortProfile> effort_profile_of(const Model& model, const Options& options) {
  const std::string metadata = model.effort_profile().value_or("");
  const std::string name = model.general_name();
  return select_effort_profile(options.effort_profile, {.metadata = metadata, .model_name = name});
}

Result<std::unique_ptr<Engine>> make_engine(Model model, const Options& options,
                                            SnapshotOptions snapshots) {
  DS4_TRY(const auto granted, check_memory_plan(model, options, snapshots.bytes_max));
  snapshots.bytes_max = granted.snapshot_bytes;
  EngineOptions engine_options = app::engine_options(options, granted);
  engine_options.max_sessions = 1;
  engine_options.snapshots = snapshots;
  engine_options.profile_ops = options.profile_ops;
  DS4_TRY(auto engine, Engine::create(std::move(model), engine_options));
  log::info("cli", "{} on {}", engine->model().general_name(), engine->device().description());
  return engine;
}

void print_profile(const Engine& engine) {
  const TraceOps* ops = engine.op_trace();
  if (ops == nullptr) return;
  print_error("prefill, time of each operation:\n" +
              profile_table(ops->profile(TraceOps::Phase::kPrefill)));
  print_error("decode, time of each operation:\n" +
              profile_table(ops->profile(TraceOps::Phase::kDecode)));
}

Result<int> answer(Model model, const Tokenizer& tokenizer, const std::string& prompt,
                   const Options& options, Trace& trace) {
  DS4_TRY(const std::vector<Token> tokens, prompt_tokens(model, tokenizer, prompt, options));
  DS4_TRY(const std::unique_ptr<Engine> engine, make_engine(std::move(model), options));
  DS4_TRY(Session session, Session::create(*engine, {.ctx_tokens = options.ctx_tokens}));
  trace.model(*engine, options);
  trace.prompt(tokens, options.thinking);
  enter_phase(Phase::kWorking);
  if (options.mode == Mode::kDumpLogprobs) {
    return dump_logprobs(session, tokenizer, tokens, options);
  }
  if (options.mode == Mode::kDumpLogits) {
    return dump_logits(session, tokenizer, tokens, options);
  }
  return print_answer(*engine, session, tokenizer, tokens, options, trace);
}

}  // namespace ds4::cli
