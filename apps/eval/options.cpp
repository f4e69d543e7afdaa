#include "options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <tuple>

#include "base/byte_size.h"
#include "ds4_version.h"

namespace ds4::evaluate {
namespace {

constexpr const char* kAbout =
    R"(Asks a model questions whose answers are known and counts. Also scores texts and official
continuations, where one sample proves little.

Without other flags it runs the cases that are built in (models/nano/cases.jsonl), greedily.)";

constexpr const char* kExamples =
    R"(Examples:
  ds4-eval -m nano.gguf --jobs 4                        all built-in cases, four at a time
  ds4-eval -m nano.gguf --source retrieval --questions 20
  ds4-eval -m nano.gguf --list-cases --source tool-call
  ds4-eval -m nano.gguf --case-sequence 7,3,100-110 --trace run.trace
  ds4-eval -m flash.gguf --cases hard.jsonl --effort high --json new.json --min-pass 60
  ds4-eval --compare old.json new.json                  what changed, case by case
  ds4-eval --regrade-trace run.trace                    grade again without a model
  ds4-eval -m flash-q2.gguf --continuations manifest.tsv --scores q2.tsv
  ds4-eval --compare-scores q4.tsv q2.tsv
  ds4-eval -m nano-q4.gguf --text held_text.txt --reference nano-exact.gguf --text-tokens 4000

A case file is JSON lines of {"id", "question", "choices"?, "answer"} with a letter, an integer or
line numbers ("12, 15-17"), or of {"id", "messages", "tools"?, "expect": {"content"} or
{"tool_calls": [{"name", "arguments"}]}}. docs/formats/eval.md has all of it.
Results go to standard output, one line a case as it ends and totals at the end; progress goes to
standard error. At a terminal a run has a page of its own instead, with its keys in the last row; q
leaves it and prints the totals. Ctrl-C ends the run and reports what was finished.
Exit codes: 0 the run finished, 1 errors or below --min-pass, 2 wrong command line, 130 interrupted.)";

// Flags that need more than a conversion.
struct Text {
  app::EngineFlagText engine;
  std::string effort = "low";
  bool think = false, nothink = false, version = false;
  bool list_cases = false, self_test = false;
};

void add_case_flags(CLI::App& app, Options& o, Text& t) {
  const char* group = "Cases";
  app.add_option("-m,--model", o.model, "model file (GGUF)")
      ->type_name("FILE")
      ->capture_default_str();
  const auto* suite = app.add_option("--suite", o.suite, "built-in cases: nano")
                          ->check(CLI::IsMember({"nano"}))
                          ->capture_default_str()
                          ->group(group);
  app.add_option("--cases", o.cases_file, "cases from a file (JSON lines)")
      ->type_name("FILE")
      ->excludes(const_cast<CLI::Option*>(suite))
      ->group(group);
  app.add_option("--source,--kind", o.sources,
                 "only cases of this source or kind; may be given several times")
      ->type_name("NAME")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false)
      ->group(group);
  app.add_option("--case-sequence", o.sequence,
                 "these cases in this order, by their numbers in --list-cases: 7,3,100-110")
      ->type_name("LIST")
      ->group(group);
  app.add_option("--questions", o.questions, "only the first N cases; 0: all")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->type_name("N")
      ->group(group);
  app.add_flag("--list-cases", t.list_cases, "list the cases and exit; needs no model")
      ->group(group);
}

void add_answer_flags(CLI::App& app, Options& o, Text& t) {
  const char* group = "Answers";
  const auto count = CLI::Range(int64_t{0}, int64_t{1} << 40);
  app.add_flag("--think", t.think, "reason before answering, whatever a case says")->group(group);
  app.add_flag("--nothink", t.nothink, "answer at once, whatever a case says")->group(group);
  app.add_option("--effort", t.effort, "reasoning effort: low, high or max")
      ->check(CLI::IsMember({"low", "high", "max"}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--effort-profile", o.effort_profile,
                 "prompt texts of the effort levels: auto, preview or official")
      ->check(CLI::IsMember({"auto", "preview", "official"}))
      ->capture_default_str()
      ->group(group);
  app.add_option("-n,--tokens", o.answer.max_tokens, "tokens to generate at most for a case")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str()
      ->group(group);
  app.add_option("--soft-limit-reply-budget", o.answer.soft_budget,
                 "with so many tokens left, end the thinking where </think> is likely; 0: never")
      ->check(count)
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  app.add_option("--soft-limit-think-close-rank", o.answer.soft_rank,
                 "likely: among the N likeliest tokens")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  app.add_option("--hard-limit-reply-budget", o.answer.hard_budget,
                 "with so many tokens left, end the thinking; 0: never")
      ->check(count)
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  app.add_option("--temp", o.answer.sampler.temperature,
                 "temperature, 0 .. 2; 0 takes the likeliest token")
      ->capture_default_str()
      ->group(group);
  app.add_option("--top-k", o.answer.sampler.top_k, "draw from the k likeliest; 0: off")
      ->capture_default_str()
      ->group(group);
  app.add_option("--top-p", o.answer.sampler.top_p,
                 "draw from the smallest set with this probability")
      ->capture_default_str()
      ->group(group);
  app.add_option("--min-p", o.answer.sampler.min_p, "drop tokens below this share of the best one")
      ->capture_default_str()
      ->group(group);
  app.add_option("--seed", o.answer.sampler.seed, "random seed; case i draws with seed + i")
      ->capture_default_str()
      ->group(group);
}

void add_run_flags(CLI::App& app, Options& o) {
  const char* group = "Run and report";
  app.add_option("--jobs", o.jobs, "cases that are answered at the same time; changes no answer")
      ->check(CLI::Range(int64_t{1}, int64_t{256}))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  app.add_flag("--plain", o.plain, "lines of text, no screen")->group(group);
  app.add_option("--pause-ms", o.pause_ms, "on the screen with one job: wait after each case")
      ->check(CLI::Range(int64_t{0}, int64_t{3600000}))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  app.add_option("--trace", o.trace, "write prompts and answers, to read and to grade again")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--json", o.json, "write the report as JSON")->type_name("FILE")->group(group);
  app.add_option("--min-pass", o.min_pass, "exit with 1 when fewer cases pass")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->type_name("N")
      ->group(group);
  app.add_option("--failures", o.failures_shown, "failures to list at the end")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
}

void add_other_modes(CLI::App& app, Options& o, Text& t) {
  const char* group = "Instead of running cases";
  app.add_option("--compare", o.compare,
                 "two JSON reports: what changed from the first to the second")
      ->type_name("OLD NEW")
      ->expected(2)
      ->multi_option_policy(CLI::MultiOptionPolicy::Throw)
      ->group(group);
  app.add_option("--regrade-trace", o.regrade, "grade the answers of a trace again")
      ->type_name("FILE")
      ->group(group);
  app.add_flag("--self-test-extractors", t.self_test, "check how answers are found in text")
      ->group(group);
  app.add_option("--continuations", o.continuations,
                 "score official continuations: TSV of id, prompt file, continuation file")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--scores", o.scores, "write the scores of --continuations")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--compare-scores", o.compare_scores, "two files of --scores")
      ->type_name("OLD NEW")
      ->expected(2)
      ->multi_option_policy(CLI::MultiOptionPolicy::Throw)
      ->group(group);
  app.add_option("--text", o.text, "how well the model predicts a text (UTF-8)")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--chats", o.chats,
                 "the same for rendered chats, each after a line '===== DS4_IMATRIX_PROMPT'")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--render-cases", o.render_cases,
                 "write the cases with their expected answers as such chats, also for ds4 "
                 "--imatrix-dataset")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--reference", o.reference,
                 "with --text or --chats: a model to measure the distance from")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--text-tokens", o.text_tokens,
                 "with --text or --chats: only the first N tokens; 0: all")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->type_name("N")
      ->group(group);
}

void add_engine_flags(CLI::App& app, Options& o, Text& t) {
  const char* group = "Engine";
  app.add_option("-c,--ctx", o.ctx_tokens,
                 "context of each job; not given: the largest prompt and its answer; with --text "
                 "4096")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 40))
      ->type_name("N")
      ->group(group);
  app::add_engine_flags(app, o, t.engine, group);
}

Result<Mode> choose_mode(const Options& o, const Text& t) {
  const std::tuple<bool, Mode, const char*> modes[] = {
      {t.list_cases, Mode::kListCases, "--list-cases"},
      {t.self_test, Mode::kSelfTest, "--self-test-extractors"},
      {!o.regrade.empty(), Mode::kRegrade, "--regrade-trace"},
      {!o.compare.empty(), Mode::kCompare, "--compare"},
      {!o.continuations.empty(), Mode::kContinuations, "--continuations"},
      {!o.compare_scores.empty(), Mode::kCompareScores, "--compare-scores"},
      {!o.text.empty(), Mode::kText, "--text"},
      {!o.chats.empty(), Mode::kText, "--chats"},
      {!o.render_cases.empty(), Mode::kRenderCases, "--render-cases"},
  };
  Mode chosen = Mode::kRun;
  std::string names;
  for (const auto& [given, mode, name] : modes) {
    if (!given) continue;
    chosen = mode;
    names += (names.empty() ? "" : " and ") + std::string(name);
  }
  if (names.find(' ') != std::string::npos) {
    return fail(ErrorCode::kInvalidArgument, names + ": choose one");
  }
  return chosen;
}

// A flag that would have no effect is a mistake, in one of the two.
Result<void> check_partners(const Options& o, const CLI::App& app) {
  const std::tuple<const char*, bool, const char*> partners[] = {
      {"--scores", o.mode == Mode::kContinuations, "--continuations"},
      {"--reference", o.mode == Mode::kText, "--text or --chats"},
      {"--text-tokens", o.mode == Mode::kText, "--text or --chats"},
      {"--trace", o.mode == Mode::kRun, "a run of cases"},
      {"--min-pass", o.mode == Mode::kRun || o.mode == Mode::kRegrade, "a run of cases"},
      {"--json", o.mode == Mode::kRun || o.mode == Mode::kRegrade || o.mode == Mode::kText,
       "a run of cases, --regrade-trace or --text"},
  };
  for (const auto& [flag, meaningful, with] : partners) {
    if (app.count(flag) > 0 && !meaningful) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("{} belongs to {}", flag, with));
    }
  }
  return {};
}

Result<void> finish(Options& o, const Text& t, const CLI::App& app) {
  DS4_TRY_VOID(app::read_engine_flags(o, t.engine, app));
  DS4_TRY_VOID(eval::check_answer_options(o.answer));
  if (t.think && t.nothink) {
    return fail(ErrorCode::kInvalidArgument, "--think and --nothink: choose one");
  }
  o.thinking.mode = t.nothink ? ThinkingMode::kChat : ThinkingMode::kThinking;
  o.thinking.effort = t.effort == "max"    ? Effort::kMax
                      : t.effort == "high" ? Effort::kHigh
                                           : Effort::kLow;
  o.think_forced = t.think || t.nothink;
  DS4_TRY(o.mode, choose_mode(o, t));
  return check_partners(o, app);
}

void print_version() {
  fmt::print("ds4-eval {} ({})\nbackends:", kVersion, kCommit);
  for (BackendKind kind : built_backends()) fmt::print(" {}", backend_name(kind));
  fmt::print("\n");
}

}  // namespace

Parsed parse_options(int argc, char** argv) {
  Parsed parsed;
  Text text;
  CLI::App app(kAbout, "ds4-eval");
  app.footer(kExamples);
  app.failure_message(CLI::FailureMessage::simple);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // as in an alias
  add_case_flags(app, parsed.options, text);
  add_answer_flags(app, parsed.options, text);
  add_run_flags(app, parsed.options);
  add_other_modes(app, parsed.options, text);
  add_engine_flags(app, parsed.options, text);
  app.add_flag("--version", text.version, "print version and backends");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    parsed.exit_code = app.exit(error) == 0 ? 0 : app::kExitUsage;
    return parsed;
  }
  if (text.version) {
    print_version();
    parsed.exit_code = 0;
    return parsed;
  }
  if (auto done = finish(parsed.options, text, app); !done) {
    fmt::print(stderr, "ds4-eval: {}\n", done.error().message);
    parsed.exit_code = app::kExitUsage;
  }
  return parsed;
}

}  // namespace ds4::evaluate
