#include "options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <vector>

#include "base/byte_size.h"
#include "ds4_version.h"

namespace ds4::bench {
namespace {

constexpr int64_t kCountMax = int64_t{1} << 40;

constexpr const char* kAbout =
    R"(Measures how fast a model reads a prompt and answers, at growing depths of context.

A fixed sequence of tokens is read up to the first frontier (--ctx-start), then from frontier to
frontier up to --ctx-max. At each one a row is written: the rate of reading this last part alone
(so prefill_tps is the rate at that depth, not an average from zero), and the rate of answering
from here. The answer is then forgotten, so that it changes no later row.)";

constexpr const char* kExamples =
    R"(Examples:
  ds4-bench -m flash.gguf --prompt-file book.txt
  ds4-bench -m nano.gguf --prompt-file book.txt --ctx-start 512 --ctx-max 512 --gen-tokens 64 -t 1
  ds4-bench -m flash.gguf --prompt-file book.txt --step-mul 2 --csv rates.csv --plot rates.svg
  ds4-bench -m flash.gguf --prompt-file book.txt --gen-tokens 0          reading only
  ds4-bench -m nano.gguf --prompt-file book.txt --ctx-max 4096 --batch 8 --repeat 5 --extended
  ds4-bench --machine                                     what this machine's memory and cores do

Columns:
  ctx_tokens       the frontier: tokens in the context before the answer
  prefill_tokens   tokens read since the frontier before, and prefill_tps their rate
  gen_tokens       tokens answered by each session, and gen_tps the rate of all sessions together
  kvcache_bytes    size of a session's state if it was written to a file
With --extended also:
  ttft_ms          time to the first token: all parts read so far, and choosing the token
  gen_p50_ms       median time of a decode step; gen_p95_ms: 95 of 100 steps took at most this
  batch            sessions in a decode step
  mtp_accept       share of drafted tokens that were taken; empty: nothing is drafted yet
  power_w          power of the processor packages during the answer; empty where the system does
                   not tell (no RAPL counters, or no right to read them)
  mem_bytes        memory of this program that is in RAM after the answer, mapped weights included
What a run cannot know is left empty.

Answers are greedy; where the end of the text would be the next token, the second best is taken.
Reading and answering are tried once before the first row, so that no row pays for loading.
With --batch every session reads for itself and only the first one is timed while it reads. Sessions
that read the same text choose the same experts, which makes them cheaper than different ones:
--batch-offset N lets session i leave out N tokens times i.
Rows go to standard output, one at a time as they are measured, everything else to standard error.
Ctrl-C ends the run with the rows so far.
Exit codes: 0 done, 1 failed, 2 wrong command line, 130 interrupted.)";

// Flags that need more than a conversion.
struct Text {
  app::EngineFlagText engine;
  bool version = false;
};

void add_input_flags(CLI::App& app, Options& o) {
  app.add_option("-m,--model", o.model, "model file (GGUF)")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_flag("--allow-slice", o.allow_slice,
               "take a slice: the first layers of a model, made for tests and measurements");
  app.add_option("--prompt-file", o.prompt_file,
                 "text to read as it is, after the token that begins a text")
      ->type_name("FILE");
  app.add_option("--chat-prompt-file", o.chat_prompt_file,
                 "text to read as one message of a user who wants no reasoning")
      ->type_name("FILE");
  app.add_option("-s,--system", o.system,
                 "system text for --chat-prompt-file; empty: none (also -sys)")
      ->type_name("TEXT")
      ->capture_default_str();
}

void add_measure_flags(CLI::App& app, Options& o) {
  const char* group = "What is measured";
  const auto count = CLI::Range(int64_t{1}, kCountMax);
  app.add_option("--ctx-start", o.ctx_start, "first frontier")
      ->check(count)
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  app.add_option("--ctx-max", o.ctx_max, "last frontier; the text must have so many tokens")
      ->check(count)
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  app.add_option("--ctx-alloc", o.ctx_alloc,
                 "context that memory is taken for; 0: --ctx-max + --gen-tokens + 1")
      ->check(CLI::Range(int64_t{0}, kCountMax))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  app.add_option("--step-mul", o.step_mul, "each frontier is so many times the one before")
      ->type_name("F")
      ->capture_default_str()
      ->group(group);
  app.add_option("--step-incr", o.step_incr, "with --step-mul 1: tokens from frontier to frontier")
      ->check(count)
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  app.add_option("-n,--gen-tokens,--tokens", o.gen_tokens,
                 "tokens to answer at each frontier; 0: only read")
      ->check(CLI::Range(int64_t{0}, kCountMax))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  app.add_option("--repeat", o.repeat, "measure each row N times and write the median")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  app.add_option("--batch", o.batch, "sessions that answer together")
      ->check(CLI::Range(int64_t{1}, int64_t{1024}))
      ->type_name("B")
      ->capture_default_str()
      ->group(group);
  app.add_option("--batch-offset", o.batch_offset,
                 "tokens of the text that each session leaves out more than the one before")
      ->check(CLI::Range(int64_t{0}, kCountMax))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  app.add_flag("--machine", o.machine,
               "measure this machine instead: memory and cache reads, multiply-adds")
      ->group(group);
}

void add_output_flags(CLI::App& app, Options& o) {
  const char* group = "Output";
  app.add_option("--csv", o.csv, "write the rows there instead of standard output")
      ->type_name("FILE")
      ->group(group);
  app.add_flag("--extended", o.extended,
               "more columns, and above them a line '# {...}' that says what was measured on what")
      ->group(group);
  app.add_option("--json", o.json, "also write that line and all columns as JSON")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--plot", o.plot, "also draw both rates over the context, as SVG")
      ->type_name("FILE")
      ->group(group);
  app.add_option(
         "--dump-frontier-logits-dir", o.logits_dir,
         "write all logits at each frontier as a JSON file in this folder, which must exist")
      ->type_name("DIR")
      ->group(group);
}

void add_engine_flags(CLI::App& app, Options& o, Text& t) {
  const char* group = "Engine";
  app::add_engine_flags(app, o, t.engine, group);
  app.add_flag("--quality", o.quality,
               "exact kernels only; no backend of this build has others, so nothing changes")
      ->group(group);
  app.add_flag("--warm-weights", o.warm_weights, "read the whole model file once before measuring")
      ->group(group);
}

Result<void> check_frontiers(Options& o) {
  if (o.ctx_start > o.ctx_max) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--ctx-start: expected at most --ctx-max {}, found {}", o.ctx_max,
                            o.ctx_start));
  }
  if (!(o.step_mul >= 1) || !std::isfinite(o.step_mul)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--step-mul: expected at least 1, found {}", o.step_mul));
  }
  const int64_t needed = o.ctx_max + o.gen_tokens + 1;
  if (o.ctx_alloc == 0) o.ctx_alloc = needed;
  if (o.ctx_alloc < needed) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--ctx-alloc: expected at least {} (--ctx-max + --gen-tokens + 1), "
                            "found {}",
                            needed, o.ctx_alloc));
  }
  return {};
}

Result<void> finish(Options& o, const Text& t, const CLI::App& app) {
  DS4_TRY_VOID(app::read_engine_flags(o, t.engine, app));
  if (o.machine) return {};
  if (o.prompt_file.empty() == o.chat_prompt_file.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "text to read: expected exactly one of --prompt-file and --chat-prompt-file");
  }
  return check_frontiers(o);
}

void print_version() {
  fmt::print("ds4-bench {} ({})\nbackends:", kVersion, kCommit);
  for (BackendKind kind : built_backends()) fmt::print(" {}", backend_name(kind));
  fmt::print("\n");
}

}  // namespace

Parsed parse_options(int argc, char** argv) {
  Parsed parsed;
  Text text;
  CLI::App app(kAbout, "ds4-bench");
  app.footer(kExamples);
  app.failure_message(CLI::FailureMessage::simple);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // as in an alias
  add_input_flags(app, parsed.options);
  add_measure_flags(app, parsed.options);
  add_output_flags(app, parsed.options);
  add_engine_flags(app, parsed.options, text);
  app.add_flag("--version", text.version, "print version and backends");

  // People type ds4's -sys; a single dash with several letters is not something CLI11 has.
  std::vector<std::string> args;
  for (int i = argc - 1; i >= 1; --i) {
    args.emplace_back(std::string_view(argv[i]) == "-sys" ? "--system" : argv[i]);
  }
  try {
    app.parse(args);
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
    fmt::print(stderr, "ds4-bench: {}\n", done.error().message);
    parsed.exit_code = app::kExitUsage;
  }
  return parsed;
}

}  // namespace ds4::bench
