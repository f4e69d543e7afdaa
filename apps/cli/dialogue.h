#pragma once
// A conversation with the model over one session: each turn renders all of it and lets the session
// find what it already holds. Prints nothing.
//
// What was said stays as text. A turn that failed, or was stopped before the answer began, leaves
// no trace in it; a stopped answer counts as far as it came.
#include <memory>
#include <optional>
#include <string>

#include "answer.h"
#include "chat/conversation.h"
#include "engine/session.h"
#include "turn.h"

namespace ds4::cli {

class Dialogue {
 public:
  // `tokenizer` must outlive it. Errors: those of make_engine, Session::create and
  // effort_profile_of.
  static Result<Dialogue> create(Model model, const Tokenizer& tokenizer, const Options& options);

  // Sends `text` and samples the answer. Errors: those of render_tokens and run_turn; all but
  // kDevice and kIo leave the conversation as it was before.
  Result<TurnReport> say(const std::string& text, const TurnHooks& hooks, Trace& trace);

  // Forgets the conversation, not the system text.
  void reset();
  // A new system text (empty: none) and a new conversation.
  void set_system(const std::string& text);
  // A new session with another context, and a new conversation. Errors, with all as it was: those
  // of Session::create.
  Result<void> resize(int64_t ctx_tokens);

  void set_thinking(const Thinking& thinking) { options_.thinking = thinking; }
  const Thinking& thinking() const { return options_.thinking; }
  const std::string& system() const { return options_.system; }

  int64_t n_turns() const;
  Engine& engine() const { return *engine_; }
  const Session& session() const { return *session_; }

 private:
  Dialogue(const Tokenizer& tokenizer, const Options& options)
      : tokenizer_(&tokenizer), options_(options), sampler_(options.sampler, tokenizer.size()) {}

  const Tokenizer* tokenizer_;
  Options options_;
  Sampler sampler_;
  EffortProfile profile_ = EffortProfile::kPreview;
  std::unique_ptr<Engine> engine_;
  std::optional<Session> session_;
  Conversation conversation_;
};

}  // namespace ds4::cli
