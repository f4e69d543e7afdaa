// A run of cases: model, prompts, runner, and what is written on the way and at the end.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/log.h"
#include "common/signals.h"
#include "engine/engine.h"
#include "eval/decoder.h"
#include "eval/runner.h"
#include "eval/trace.h"
#include "program.h"
#include "tui.h"

namespace ds4::evaluate {
namespace {

using Json = nlohmann::ordered_json;

// What the runner works on.
struct Work {
  std::vector<eval::Case> cases;
  std::vector<eval::Prompt> prompts;
  int64_t max_prompt_tokens = 0;
  int64_t ctx_tokens = 0;
};

Result<EffortProfile> effort_profile_of(const Model& model, const Options& options) {
  const std::string metadata = model.effort_profile().value_or("");
  const std::string name = model.general_name();
  return select_effort_profile(options.effort_profile, {.metadata = metadata, .model_name = name});
}

Result<Work> prepare(const Model& model, const Tokenizer& tokenizer, const Options& options,
                     std::vector<eval::Case> cases) {
  Work work;
  work.cases = std::move(cases);
  DS4_TRY(const EffortProfile profile, effort_profile_of(model, options));
  const eval::PromptOptions prompt_options{
      .thinking = options.thinking, .think_forced = options.think_forced, .profile = profile};
  for (const eval::Case& c : work.cases) {
    DS4_TRY(eval::Prompt prompt, eval::make_prompt(c, prompt_options, tokenizer));
    work.max_prompt_tokens = std::max<int64_t>(work.max_prompt_tokens, std::ssize(prompt.tokens));
    work.prompts.push_back(std::move(prompt));
  }
  work.ctx_tokens = options.ctx_tokens > 0
                        ? options.ctx_tokens
                        : std::min(work.max_prompt_tokens + options.answer.max_tokens,
                                   model.config().max_position);
  return work;
}

Result<std::unique_ptr<Engine>> make_engine(Model model, const Options& options,
                                            int64_t ctx_tokens) {
  MemoryPlanInput input = app::plan_input(model, options);
  input.max_sessions = input.n_sessions = options.jobs;
  input.ctx_tokens = ctx_tokens;
  DS4_TRY(const auto granted,
          app::check_memory_plan(model.config(), input, options.mem_limit, false, options.verbose));
  EngineOptions engine_options = app::engine_options(options, granted);
  engine_options.max_sessions = options.jobs;
  DS4_TRY(auto engine, Engine::create(std::move(model), engine_options));
  log::info("eval", "{} on {}", engine->model().general_name(), engine->device().description());
  return engine;
}

// The trace grows case by case, so that a run that ends badly leaves what was there.
class TraceFile {
 public:
  static Result<TraceFile> create(const std::string& path) {
    TraceFile trace;
    trace.path_ = path;
    if (path.empty()) return trace;
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    trace.file_.reset(fd < 0 ? nullptr : ::fdopen(fd, "w"));
    if (trace.file_ == nullptr) {
      return fail(ErrorCode::kIo, fmt::format("{}: cannot open: {}", path, std::strerror(errno)));
    }
    return trace;
  }

  bool wanted() const { return file_ != nullptr; }
  bool failed() const { return failed_; }

  // A full disk is said once; the run goes on, and its exit code tells.
  void write(std::string_view text) {
    if (file_ == nullptr || failed_) return;
    if (std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size() &&
        std::fflush(file_.get()) == 0) {
      return;
    }
    failed_ = true;
    app::print_error(fmt::format("ds4-eval: {}: cannot write, no more is traced: {}\n", path_,
                                 std::strerror(errno)));
  }

 private:
  struct Close {
    void operator()(FILE* file) const { (void)std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<FILE, Close> file_;
  bool failed_ = false;
};

// One line on standard error that is rewritten while the run goes on.
class ProgressLine {
 public:
  ProgressLine(const app::Screen& screen, const eval::Board& board)
      : visible_(screen.err_is_terminal && screen.styles), board_(board) {}
  ~ProgressLine() { clear(); }

  void update() {
    const auto now = std::chrono::steady_clock::now();
    if (!visible_ || (shown_ && now - last_ < std::chrono::milliseconds(250))) return;
    last_ = now;
    shown_ = true;
    const eval::BoardSnapshot seen = board_.snapshot(0, 0);
    const eval::BoardTotals& t = seen.totals;
    const int64_t seconds = static_cast<int64_t>(seen.elapsed_seconds);
    std::string line = fmt::format("{} passed, {} failed, {} to go; {:.0f} + {:.0f} t/s; {}:{:02}",
                                   t.passed, t.failed, t.running + t.pending, seen.prefill_rate,
                                   seen.decode_rate, seconds / 60, seconds % 60);
    // A line that wraps could not be taken back.
    winsize size = {};
    if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1) {
      line.resize(std::min(line.size(), size_t{size.ws_col} - 1));
    }
    app::print_error("\r" + line + "\x1b[K");
  }

  void clear() {
    if (shown_) app::print_error("\r\x1b[K");
    shown_ = false;
  }

 private:
  const bool visible_;
  const eval::Board& board_;
  std::chrono::steady_clock::time_point last_;
  bool shown_ = false;
};

std::vector<eval::BoardCase> board_cases(const Work& work) {
  std::vector<eval::BoardCase> cases;
  for (size_t i = 0; i < work.cases.size(); ++i) {
    const eval::Case& c = work.cases[i];
    cases.push_back({c.id, c.source, c.title, work.prompts[i].question});
  }
  return cases;
}

eval::TraceHeader trace_header(const Work& work, const Options& o) {
  return {.started_unix = std::chrono::duration_cast<std::chrono::seconds>(
                              std::chrono::system_clock::now().time_since_epoch())
                              .count(),
          .model = std::filesystem::path(o.model).filename().string(),
          .backend = std::string(backend_name(o.backend)),
          .ctx = work.ctx_tokens,
          .max_prompt_tokens = work.max_prompt_tokens,
          .questions = std::ssize(work.cases),
          .think_mode_requested = !o.think_forced                              ? "case"
                                  : o.thinking.mode == ThinkingMode::kThinking ? "think"
                                                                               : "nothink",
          .answer = o.answer};
}

eval::ReportFacts run_facts(const Work& work, const Options& o, const Model& model) {
  eval::ReportFacts facts;
  add_engine_facts(facts, o);
  add_model_facts(facts, "model", model);
  facts.emplace_back("suite", o.cases_file.empty()
                                  ? o.suite
                                  : std::filesystem::path(o.cases_file).filename().string());
  facts.emplace_back("prompt_version", eval::kPromptVersion);
  Json flags;
  flags["jobs"] = o.jobs;
  flags["ctx"] = work.ctx_tokens;
  flags["max_tokens"] = o.answer.max_tokens;
  flags["think"] = trace_header(work, o).think_mode_requested;
  flags["effort"] = o.thinking.effort == Effort::kMax    ? "max"
                    : o.thinking.effort == Effort::kHigh ? "high"
                                                         : "low";
  flags["temperature"] = o.answer.sampler.temperature;
  flags["top_k"] = o.answer.sampler.top_k;
  flags["top_p"] = o.answer.sampler.top_p;
  flags["min_p"] = o.answer.sampler.min_p;
  flags["seed"] = o.answer.sampler.seed;
  flags["soft_limit_reply_budget"] = o.answer.soft_budget;
  flags["hard_limit_reply_budget"] = o.answer.hard_budget;
  flags["soft_limit_think_close_rank"] = o.answer.soft_rank;
  facts.emplace_back("flags", std::move(flags));
  return facts;
}

void note_budget(const Work& work, const Options& o) {
  const bool thinks = std::ranges::any_of(work.prompts, [](const eval::Prompt& prompt) {
    return prompt.thinking.mode == ThinkingMode::kThinking;
  });
  if (!thinks || o.answer.max_tokens > o.answer.hard_budget) return;
  app::print_error(
      fmt::format("ds4-eval: -n {} is within --hard-limit-reply-budget {}: no case gets to think\n",
                  o.answer.max_tokens, o.answer.hard_budget));
}

std::string rates(const eval::Board& board) {
  const eval::BoardSnapshot seen = board.snapshot(0, 0);
  const double seconds = std::max(seen.elapsed_seconds, 1e-9);
  return fmt::format(
      "{:.1f} s, {} prompt tokens and {} generated, {:.1f} t/s together\n", seen.elapsed_seconds,
      seen.totals.prompt_tokens, seen.totals.generated_tokens,
      static_cast<double>(seen.totals.prompt_tokens + seen.totals.generated_tokens) / seconds);
}

// Totals, failures, the report file; the exit code of a run that came to its end.
Result<int> report(const eval::Runner& runner, const eval::Board& board,
                   const eval::ReportFacts& facts, const Options& options) {
  const eval::Totals totals = eval::total(runner.outcomes());
  DS4_TRY_VOID(print("\n" + eval::totals_table(totals)));
  const std::string failures = eval::failure_list(runner.outcomes(), options.failures_shown);
  if (!failures.empty()) DS4_TRY_VOID(print("\n" + failures));
  app::print_error(rates(board));
  if (!options.json.empty()) {
    eval::ReportFacts all = facts;
    all.emplace_back("complete", !runner.ended_early());
    DS4_TRY_VOID(write_file(options.json,
                            eval::report_json(all, runner.outcomes(), board.elapsed_seconds())));
  }
  const int code = exit_code_of(totals, options);
  return app::interrupted() ? app::kExitInterrupted : code;
}

// A run and what it is made of, with a screen or without.
struct Run {
  const Work& work;
  const Tokenizer& tokenizer;
  eval::Decoder& decoder;
  eval::Board& board;
  TraceFile& trace;
  const Options& options;
  std::unique_ptr<eval::Runner> runner;

  void make_runner(int64_t pause_ms, eval::RunHooks hooks) {
    runner = std::make_unique<eval::Runner>(
        work.cases, work.prompts, tokenizer, decoder, board,
        eval::RunOptions{.answer = options.answer, .pause_ms = pause_ms}, std::move(hooks));
  }
  void trace_outcome(const eval::Outcome& o) {
    if (!trace.wanted()) return;
    trace.write(eval::trace_case(o, std::ssize(work.cases), work.cases[o.index],
                                 work.prompts[o.index], options.answer.sampler));
  }
};

Result<void> run_plain(Run& run) {
  ProgressLine progress(run.options.screen, run.board);
  Result<void> printed;
  const auto on_outcome = [&](const eval::Outcome& o) {
    progress.clear();
    if (printed) printed = print(eval::outcome_line(o, std::ssize(run.work.cases)));
    run.trace_outcome(o);
  };
  const auto interrupted = [&] {
    progress.update();
    return app::interrupted() || !printed;
  };
  run.make_runner(0, {on_outcome, interrupted});
  auto ran = run.runner->run();
  progress.clear();
  if (!printed) return printed;
  return ran;
}

// The runner works in a thread of its own; the terminal stays with this one.
Result<void> run_full_screen(Run& run) {
  run.make_runner(run.options.pause_ms,
                  {[&](const eval::Outcome& o) { run.trace_outcome(o); }, app::interrupted});
  Result<void> ran;
  std::thread worker([&] {
    try {
      ran = run.runner->run();
    } catch (const std::exception& e) {
      ran = fail(ErrorCode::kOutOfMemory, e.what());
    }
    run.board.finish_run();  // on every way out, or the screen would wait for it
  });
  auto shown = show_board(run.board);
  worker.join();
  return shown ? ran : shown;
}

bool wants_full_screen(const Options& options) {
  return !options.plain && options.screen.out_is_terminal && options.screen.styles &&
         ::isatty(STDIN_FILENO) == 1;
}

}  // namespace

Result<int> run_cases(const Options& options) {
  DS4_TRY(std::vector<eval::Case> cases, chosen_cases(options));
  DS4_TRY(Model model, Model::open(options.model));
  DS4_TRY(const Tokenizer tokenizer, Tokenizer::create(model.vocab()));
  DS4_TRY(const Work work, prepare(model, tokenizer, options, std::move(cases)));
  DS4_TRY(TraceFile trace, TraceFile::create(options.trace));
  const eval::ReportFacts facts = run_facts(work, options, model);
  DS4_TRY(const std::unique_ptr<Engine> engine,
          make_engine(std::move(model), options, work.ctx_tokens));
  DS4_TRY(const auto decoder,
          eval::EngineDecoder::create(*engine, static_cast<size_t>(options.jobs), work.ctx_tokens));
  if (trace.wanted()) trace.write(eval::trace_header(trace_header(work, options)));
  note_budget(work, options);
  app::enter_phase(app::Phase::kWorking);
  eval::Board board(board_cases(work));
  Run run{work, tokenizer, *decoder, board, trace, options, nullptr};
  const auto ran = wants_full_screen(options) ? run_full_screen(run) : run_plain(run);
  // What was finished before an error counts all the same.
  DS4_TRY(int code, report(*run.runner, board, facts, options));
  if (!ran) return tl::unexpected(ran.error());
  if (trace.failed() && code == 0) code = app::kExitFailed;
  return code;
}

}  // namespace ds4::evaluate
