#include "dialogue.h"

#include <algorithm>

#include "chat/render.h"
#include "memory.h"

namespace ds4::cli {
namespace {

Message message(Role role, std::string content) {
  Message m;
  m.role = role;
  m.content = std::move(content);
  return m;
}

}  // namespace

Result<Dialogue> Dialogue::create(Model model, const Tokenizer& tokenizer, const Options& options) {
  Dialogue dialogue(tokenizer, options);
  DS4_TRY(dialogue.profile_, effort_profile_of(model, options));
  DS4_TRY(dialogue.engine_, make_engine(std::move(model), options,
                                        {.bytes_max = snapshot_bytes_wanted(options),
                                         .turn_marker = tokenizer.special().user,
                                         .answer_marker = tokenizer.special().assistant}));
  DS4_TRY(Session session, Session::create(*dialogue.engine_, {.ctx_tokens = options.ctx_tokens}));
  dialogue.session_ = std::move(session);
  dialogue.reset();
  return dialogue;
}

Result<TurnReport> Dialogue::say(const std::string& text, const TurnHooks& hooks, Trace& trace) {
  std::vector<Message>& messages = conversation_.messages;
  messages.push_back(message(Role::kUser, text));
  const auto take_back = [&] { messages.pop_back(); };
  const auto prompt = render_tokens(
      conversation_, {.thinking = options_.thinking, .profile = profile_}, *tokenizer_);
  if (!prompt) {
    take_back();
    return tl::unexpected(prompt.error());
  }
  trace.prompt(*prompt, options_.thinking);
  auto report = run_turn(
      *session_, *tokenizer_, sampler_,
      {.prompt = *prompt, .mode = options_.thinking.mode, .max_tokens = options_.max_tokens},
      hooks);
  if (!report || report->ended == Ended::kInterruptedPrompt) {
    take_back();
    return report;
  }
  Message reply = message(Role::kAssistant, report->content);
  reply.reasoning = report->reasoning;
  messages.push_back(std::move(reply));
  return report;
}

void Dialogue::reset() {
  session_->reset();
  conversation_ = {};
  if (!options_.system.empty()) {
    conversation_.messages.push_back(message(Role::kSystem, options_.system));
  }
}

void Dialogue::set_system(const std::string& text) {
  options_.system = text;
  reset();
}

Result<void> Dialogue::resize(int64_t ctx_tokens) {
  Options resized = options_;
  resized.ctx_tokens = ctx_tokens;
  resized.repack_bytes_max = engine_->options().repack_bytes_max;
  DS4_TRY_VOID(check_memory_plan(engine_->model(), resized,
                                 engine_->snapshots().options().bytes_max, /*copies_exist=*/true));
  // Made before the old one goes: without memory for both, the conversation stays.
  DS4_TRY(Session session, Session::create(*engine_, {.ctx_tokens = ctx_tokens}));
  session_ = std::move(session);
  reset();
  return {};
}

int64_t Dialogue::n_turns() const {
  return std::count_if(conversation_.messages.begin(), conversation_.messages.end(),
                       [](const Message& m) { return m.role == Role::kAssistant; });
}

}  // namespace ds4::cli
