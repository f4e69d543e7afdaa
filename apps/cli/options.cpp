#include "options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <random>
#include <tuple>

#include "base/byte_size.h"
#include "ds4_version.h"

namespace ds4::cli {
namespace {

constexpr const char* kAbout =
    "Answers a prompt with a DeepSeek-V4 model, on this machine. Without a prompt, at a terminal,\n"
    "it holds a conversation: type, read, answer; /help lists its commands.";

constexpr const char* kExamples =
    R"(Examples:
  ds4 -m nano.gguf                                     a conversation
  ds4 -m nano.gguf -p "What is the capital of Japan?"  one answer
  ds4 -m nano.gguf --temp 0 --nothink -p "Count from 3 to 8."
  ds4 -m flash.gguf --prompt-file question.txt -c 65536
  git diff | ds4 -m flash.gguf -sys "Review this change." -
  ds4 -m nano.gguf --raw-prompt -n 60 -p "Once upon a time there was a king who"
  ds4 -m flash.gguf --inspect
  ds4 -m nano.gguf --dump-tokens -p "Hello, world!"
  ds4 -m nano.gguf --dump-logprobs run.json -n 20 -p "Hello, my friend!"
  ds4 -m nano.gguf --perplexity-file book.txt
  ds4 -m flash.gguf --imatrix-dataset chats.txt --imatrix-out flash.imatrix.dat

The answer goes to standard output, progress and timings to standard error. On a
terminal the reasoning is shown dim; into a pipe goes the answer alone.
Ctrl-C stops after the token in work; what was answered so far stays. A second one
before that ends the program.
Exit codes: 0 done, 1 failed, 2 wrong command line, 130 interrupted.)";

// Flags that need more than a conversion.
struct Text {
  app::EngineFlagText engine;
  std::string input;  // the positional "-"
  bool think = false, think_max = false, nothink = false, version = false;
  bool inspect = false, dump_tokens = false;
};

void add_input_flags(CLI::App& app, Options& o, Text& t) {
  app.add_option("-m,--model", o.model, "model file (GGUF)")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_flag("--allow-slice", o.allow_slice,
               "take a slice: the first layers of a model, made for tests and measurements");
  const auto* prompt = app.add_option("-p,--prompt", o.prompt, "prompt")->type_name("TEXT");
  app.add_option("--prompt-file", o.prompt_file, "prompt from a file; - is standard input")
      ->type_name("FILE")
      ->excludes(const_cast<CLI::Option*>(prompt));
  app.add_option("input", t.input, "- reads the prompt from standard input")
      ->check(CLI::IsMember({"-"}))
      ->type_name("");
  app.add_flag("--raw-prompt", o.raw_prompt,
               "continue the text as it is, without the chat template");
  app.add_option("-s,--system", o.system, "system text; empty: none (also -sys)")
      ->type_name("TEXT")
      ->capture_default_str();
  app.add_flag("--inspect", t.inspect, "load and check the model, print a summary");
  app.add_flag(
      "--dump-tokens", t.dump_tokens,
      "tokenise the prompt as it is (control strings are recognised), print ids and pieces");
}

void add_answer_flags(CLI::App& app, Options& o, Text& t) {
  const char* group = "Answer";
  app.add_flag("--think", t.think, "reason before answering (default)")->group(group);
  app.add_flag("--think-max", t.think_max, "reason at the highest effort")->group(group);
  app.add_flag("--nothink", t.nothink, "answer at once")->group(group);
  app.add_flag("--hide-thinking", o.hide_thinking, "do not show the reasoning")->group(group);
  app.add_option("--effort-profile", o.effort_profile,
                 "prompt texts of the effort levels: auto, preview or official")
      ->check(CLI::IsMember({"auto", "preview", "official"}))
      ->capture_default_str()
      ->group(group);
  app.add_option("-n,--tokens", o.max_tokens, "tokens to generate at most")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str()
      ->group(group);
  app.add_option("--temp", o.sampler.temperature,
                 "temperature, 0 .. 2; 0 takes the likeliest token")
      ->capture_default_str()
      ->group(group);
  app.add_option("--top-k", o.sampler.top_k, "draw from the k likeliest; 0: off")
      ->capture_default_str()
      ->group(group);
  app.add_option("--top-p", o.sampler.top_p, "draw from the smallest set with this probability")
      ->capture_default_str()
      ->group(group);
  app.add_option("--min-p", o.sampler.min_p, "drop tokens below this share of the best one")
      ->capture_default_str()
      ->group(group);
  app.add_option("--seed", o.sampler.seed, "random seed; not given: another one each time")
      ->group(group);
}

void add_engine_flags(CLI::App& app, Options& o, Text& t) {
  const char* group = "Engine";
  app.add_option("-c,--ctx", o.ctx_tokens, "context in tokens: prompt and answer together")
      ->capture_default_str()
      ->group(group);
  app::add_engine_flags(app, o, t.engine, group);
  app.add_option_function<int64_t>(
         "--snapshot-mb", [&o](const int64_t& mb) { o.snapshot_bytes = mb << 20; },
         "MiB for going back in a conversation without reading it again; not given: 2048, or what "
         "is left")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30))
      ->type_name("N")
      ->group(group);
  app.add_flag("--profile-ops", o.profile_ops, "print the time of each operation at the end")
      ->group(group);
}

void add_number_flags(CLI::App& app, Options& o) {
  const char* group = "Numbers";
  app.add_option("--dump-logprobs", o.dump_logprobs,
                 "run greedily, write each token and its likeliest alternatives as JSON, no text")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--logprobs-top-k", o.logprobs_top_k, "alternatives per token, 1 .. 128")
      ->check(CLI::Range(int64_t{1}, int64_t{128}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--dump-logits", o.dump_logits, "write all logits after the prompt as JSON")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--perplexity-file", o.perplexity_file,
                 "how well the model predicts a text; its first 32 tokens are context only")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--trace", o.trace,
                 "write what happens as JSON lines, for a bug report; holds prompts and answers")
      ->type_name("FILE")
      ->group(group);
}

void add_imatrix_flags(CLI::App& app, Options& o) {
  const char* group = "Importance matrix for ds4-quantize";
  app.add_option("--imatrix-dataset", o.imatrix_dataset,
                 "rendered chats to run, each after a line '===== DS4_IMATRIX_PROMPT'")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--imatrix-out", o.imatrix_out,
                 "file to write: llama.cpp's .dat, or its GGUF form for a name in .gguf")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--imatrix-max-prompts", o.imatrix_max_prompts, "stop after N prompts; 0: all")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->capture_default_str()
      ->group(group);
  app.add_option("--imatrix-max-tokens", o.imatrix_max_tokens, "stop after N tokens; 0: all")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->capture_default_str()
      ->group(group);
}

void print_version() {
  fmt::print("ds4 {} ({})\nbackends:", kVersion, kCommit);
  for (BackendKind kind : built_backends()) fmt::print(" {}", backend_name(kind));
  if (auto backend = make_backend(BackendKind::kCpu, {})) {
    fmt::print("\ndevice: {}\n", backend->device->description());
  }
}

Result<Mode> choose_mode(const Options& o, const Text& t) {
  const std::tuple<bool, Mode, const char*> modes[] = {
      {t.inspect, Mode::kInspect, "--inspect"},
      {t.dump_tokens, Mode::kDumpTokens, "--dump-tokens"},
      {!o.dump_logprobs.empty(), Mode::kDumpLogprobs, "--dump-logprobs"},
      {!o.dump_logits.empty(), Mode::kDumpLogits, "--dump-logits"},
      {!o.perplexity_file.empty(), Mode::kPerplexity, "--perplexity-file"},
      {!o.imatrix_dataset.empty(), Mode::kImatrix, "--imatrix-dataset"},
  };
  Mode chosen = Mode::kAnswer;
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

Result<void> finish(Options& o, const Text& t, const CLI::App& app) {
  DS4_TRY_VOID(app::read_engine_flags(o, t.engine, app));
  DS4_TRY_VOID(check_sampler_options(o.sampler));
  if (t.think + t.think_max + t.nothink > 1) {
    return fail(ErrorCode::kInvalidArgument, "--think, --think-max and --nothink: choose one");
  }
  o.thinking = {t.nothink ? ThinkingMode::kChat : ThinkingMode::kThinking,
                t.think_max ? Effort::kMax : Effort::kLow};
  DS4_TRY(o.mode, choose_mode(o, t));
  if (o.imatrix_dataset.empty() != o.imatrix_out.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "--imatrix-dataset and --imatrix-out: one needs the other");
  }
  if (!t.input.empty()) {
    if (o.prompt || o.prompt_file) {
      return fail(ErrorCode::kInvalidArgument, "prompt: given twice, as an option and as -");
    }
    o.prompt_file = t.input;
  }
  if (app.count("--seed") == 0) o.sampler.seed = std::random_device{}();
  return {};
}

}  // namespace

Parsed parse_options(int argc, char** argv) {
  Parsed parsed;
  Text text;
  CLI::App app(kAbout, "ds4");
  app.footer(kExamples);
  app.failure_message(CLI::FailureMessage::simple);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // as in an alias
  add_input_flags(app, parsed.options, text);
  add_answer_flags(app, parsed.options, text);
  add_engine_flags(app, parsed.options, text);
  add_number_flags(app, parsed.options);
  add_imatrix_flags(app, parsed.options);
  app.add_flag("--version", text.version, "print version, backends and device");

  // People type ds4's -sys; a single dash with several letters is not something CLI11 has.
  std::vector<std::string> args;
  for (int i = argc - 1; i >= 1; --i) {
    args.emplace_back(std::string_view(argv[i]) == "-sys" ? "--system" : argv[i]);
  }
  try {
    app.parse(args);
  } catch (const CLI::ParseError& error) {
    parsed.exit_code = app.exit(error) == 0 ? 0 : kExitUsage;
    return parsed;
  }
  if (text.version) {
    print_version();
    parsed.exit_code = 0;
    return parsed;
  }
  if (auto done = finish(parsed.options, text, app); !done) {
    fmt::print(stderr, "ds4: {}\n", done.error().message);
    parsed.exit_code = kExitUsage;
  }
  return parsed;
}

}  // namespace ds4::cli
