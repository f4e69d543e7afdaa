#include "repl.h"

#include <fmt/format.h>

#include <charconv>

#include "base/byte_size.h"
#include "commands.h"
#include "dialogue.h"
#include "ds4_version.h"
#include "history_file.h"
#include "input.h"
#include "line_editor.h"
#include "signals.h"

namespace ds4::cli {
namespace {

constexpr std::string_view kMoreRoom =
    "/reset starts over, /ctx N makes a larger context (the conversation is lost with both)";

double rate(int64_t n, double seconds) {
  return seconds > 0 ? static_cast<double>(n) / seconds : 0.0;
}

const char* mode_name(const Thinking& thinking) {
  if (thinking.mode == ThinkingMode::kChat) return "no thinking";
  return thinking.effort == Effort::kMax ? "thinking, effort max" : "thinking";
}

// The repl's state and the commands that work on it.
class Repl {
 public:
  Repl(Dialogue dialogue, const Tokenizer& tokenizer, const Options& options, Trace& trace)
      : dialogue_(std::move(dialogue)),
        tokenizer_(tokenizer),
        options_(options),
        trace_(trace),
        history_(options.history_file) {}

  Result<int> run();
  const Engine& engine() const { return dialogue_.engine(); }

 private:
  // Nothing: go on. A number: end with it.
  using Next = std::optional<int>;

  Result<Next> handle(const std::string& text);
  Result<Next> command(const std::string& line);
  Result<Next> send(const std::string& text);
  void report_turn(const TurnReport& report);

  void set_context(const std::string& argument);
  Result<Next> send_file(const std::string& path);
  void print_status() const;
  void note(std::string_view text) const { print_note(options_.screen, text); }

  Dialogue dialogue_;
  const Tokenizer& tokenizer_;
  const Options& options_;
  Trace& trace_;
  HistoryFile history_;
  std::optional<TurnReport> last_;
};

Result<int> Repl::run() {
  DS4_TRY(const auto editor, LineEditor::create({.bracketed_paste = options_.screen.styles,
                                                 .history = history_.load(),
                                                 .n_history = kHistoryMax}));
  const Engine& engine = dialogue_.engine();
  note(fmt::format("ds4 {}, {}, context {} tokens. /help lists the commands, Ctrl-D leaves.",
                   kVersion, engine.model().general_name(), dialogue_.session().ctx_tokens()));
  while (true) {
    enter_phase(Phase::kPrompt);
    const Line line = editor->read();
    enter_phase(Phase::kWorking);
    if (line.how == Line::How::kEnd) return end_requested() ? kExitInterrupted : 0;
    if (line.how == Line::How::kInterrupted) continue;
    if (line.text.find_first_not_of(" \t\n") == std::string::npos) continue;
    editor->remember(line.text);
    // A home that cannot be written costs the history, nothing else.
    (void)history_.append(line.text);
    DS4_TRY(const Next next, handle(line.text));
    if (next) return *next;
    if (end_requested()) return kExitInterrupted;
    clear_interrupt();
  }
}

Result<Repl::Next> Repl::handle(const std::string& text) {
  if (text.starts_with('/')) return command(text);
  // A space in front is the way to send text that begins with a slash.
  return send(text.starts_with(" /") ? text.substr(1) : text);
}

Result<Repl::Next> Repl::command(const std::string& line) {
  trace_.command(line);
  const auto parsed = parse_command(line);
  if (!parsed) {
    note(parsed.error().message);
    print_error(commands_help());
    return Next{};
  }
  switch (parsed->id) {
    case CommandId::kHelp:
      print_error(commands_help());
      break;
    case CommandId::kThink:
    case CommandId::kThinkMax:
    case CommandId::kNoThink:
      dialogue_.set_thinking(
          {parsed->id == CommandId::kNoThink ? ThinkingMode::kChat : ThinkingMode::kThinking,
           parsed->id == CommandId::kThinkMax ? Effort::kMax : Effort::kLow});
      note(fmt::format("{} from the next message on", mode_name(dialogue_.thinking())));
      break;
    case CommandId::kCtx:
      set_context(parsed->argument);
      break;
    case CommandId::kRead:
      return send_file(parsed->argument);
    case CommandId::kStatus:
      print_status();
      break;
    case CommandId::kSystem:
      dialogue_.set_system(parsed->argument);
      note(parsed->argument.empty() ? "no system text; a new conversation begins"
                                    : "new system text; a new conversation begins");
      break;
    case CommandId::kReset:
      dialogue_.reset();
      note("a new conversation begins");
      break;
    case CommandId::kQuit:
      return Next{0};
  }
  return Next{};
}

Result<Repl::Next> Repl::send(const std::string& text) {
  AnswerPrinter printer(options_.screen, options_.hide_thinking);
  TurnHooks hooks{
      .screen = options_.screen, .printer = &printer, .ops = dialogue_.engine().op_trace()};
  trace_.attach(hooks, tokenizer_);
  const auto report = dialogue_.say(text, hooks, trace_);
  if (report) {
    trace_.turn(*report);
    report_turn(*report);
    return Next{};
  }
  const Error& error = report.error();
  if (error.code == ErrorCode::kIo || error.code == ErrorCode::kDevice) {
    return tl::unexpected(error);
  }
  trace_.error(error);
  const bool full = error.code == ErrorCode::kContextFull;
  note(fmt::format("not sent: {}{}{}", error.message, full ? "; " : "", full ? kMoreRoom : ""));
  return Next{};
}

void Repl::report_turn(const TurnReport& r) {
  if (r.ended == Ended::kInterruptedPrompt) {
    note("interrupted while reading the prompt: the message was taken back");
    return;
  }
  last_ = r;
  const Session& session = dialogue_.session();
  note(
      fmt::format("prompt {} tokens read, {} reused, {:.1f} t/s; answer {} tokens, {:.1f} t/s; "
                  "context {} of {}{}",
                  r.sync.evaluated_tokens, r.sync.reused_tokens,
                  rate(r.sync.evaluated_tokens, r.prompt_seconds), r.answer_tokens,
                  rate(r.answer_tokens, r.answer_seconds), session.tokens().size(),
                  session.ctx_tokens(), describe(r.ended)));
  if (r.ended == Ended::kContext) {
    note(fmt::format("the context is full: {} of {} tokens are used, so the answer was cut; {}",
                     session.tokens().size(), session.ctx_tokens(), kMoreRoom));
  }
}

void Repl::set_context(const std::string& argument) {
  int64_t n = 0;
  const char* const end = argument.data() + argument.size();
  const auto [rest, error] = std::from_chars(argument.data(), end, n);
  const int64_t max = dialogue_.engine().config().max_position;
  if (error != std::errc() || rest != end || n < 1 || n > max) {
    note(fmt::format("/ctx: expected a number of tokens from 1 to {}, found '{}'; nothing changed",
                     max, argument));
    return;
  }
  if (const auto done = dialogue_.resize(n); !done) {
    trace_.error(done.error());
    note(fmt::format("/ctx: {}; nothing changed", done.error().message));
    return;
  }
  note(fmt::format("context {} tokens; the conversation is lost, a new one begins", n));
}

Result<Repl::Next> Repl::send_file(const std::string& path) {
  const auto text = read_regular_file(path);
  if (!text || text->empty()) {
    note(fmt::format("/read: {}; nothing was sent",
                     text ? path + ": the file is empty" : text.error().message));
    return Next{};
  }
  return send(*text);
}

void Repl::print_status() const {
  const Session& session = dialogue_.session();
  Engine& engine = dialogue_.engine();
  std::string text = fmt::format(
      "model    {} on {}\n"
      "mode     {}\n"
      "system   {}\n"
      "context  {} of {} tokens used, KV cache {}, workspace {}\n"
      "back     {} snapshots, {}\n"
      "turns    {}\n",
      engine.model().general_name(), engine.device().description(), mode_name(dialogue_.thinking()),
      dialogue_.system().empty() ? "(none)" : dialogue_.system(), session.tokens().size(),
      session.ctx_tokens(),
      format_byte_size(Session::bytes_needed(engine, {.ctx_tokens = session.ctx_tokens()})),
      format_byte_size(engine.workspace_bytes()), engine.snapshots().use().n_snapshots,
      format_byte_size(engine.snapshots().use().bytes), dialogue_.n_turns());
  if (last_) {
    text += fmt::format(
        "last     prompt {} tokens read, {} reused, {:.1f} t/s; answer {} tokens, {:.1f} t/s\n",
        last_->sync.evaluated_tokens, last_->sync.reused_tokens,
        rate(last_->sync.evaluated_tokens, last_->prompt_seconds), last_->answer_tokens,
        rate(last_->answer_tokens, last_->answer_seconds));
  }
  print_error(without_controls(text));
}

}  // namespace

Result<int> run_repl(Model model, const Tokenizer& tokenizer, const Options& options,
                     Trace& trace) {
  DS4_TRY(Dialogue dialogue, Dialogue::create(std::move(model), tokenizer, options));
  trace.model(dialogue.engine(), options);
  Repl repl(std::move(dialogue), tokenizer, options, trace);
  DS4_TRY(const int code, repl.run());
  print_profile(repl.engine());
  return code;
}

}  // namespace ds4::cli
