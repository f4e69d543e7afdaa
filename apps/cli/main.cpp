// ds4: answers a prompt with a DeepSeek-V4 model, or talks with a person at a terminal. The main
// path through the project starts here: options -> model -> tokenizer -> engine and session
// (engine/session.h) -> tokens as they come (turn.cpp). The one file that reads the environment.
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>

#include "answer.h"
#include "base/log.h"
#include "common/program.h"
#include "dump.h"
#include "imatrix.h"
#include "input.h"
#include "options.h"
#include "repl.h"
#include "signals.h"
#include "terminal.h"
#include "trace.h"

namespace {

using namespace ds4;

// What the flags leave to the environment.
void read_environment(cli::Options& options) {
  options.screen = cli::Screen::detect(std::getenv("TERM"));
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') {
    const passwd* user = ::getpwuid(::getuid());
    home = user == nullptr ? nullptr : user->pw_dir;
  }
  if (home != nullptr) options.history_file = std::string(home) + "/.ds4_history";
}

bool needs_prompt(cli::Mode mode) {
  return mode != cli::Mode::kInspect && mode != cli::Mode::kPerplexity &&
         mode != cli::Mode::kImatrix;
}

// Nothing when there is no prompt and a person could type one.
Result<std::optional<std::string>> read_prompt(const cli::Options& options) {
  std::string text;
  if (options.prompt) {
    text = *options.prompt;
  } else if (options.prompt_file) {
    DS4_TRY(text, cli::read_input(*options.prompt_file));
  } else if (::isatty(STDIN_FILENO) == 0) {
    DS4_TRY(text, cli::read_input("-"));
  } else if (options.mode == cli::Mode::kAnswer && !options.raw_prompt) {
    return std::optional<std::string>();
  } else {
    return fail(
        ErrorCode::kInvalidArgument,
        "no prompt: give -p TEXT, --prompt-file FILE, or - to read standard input (--help)");
  }
  if (text.empty()) return fail(ErrorCode::kInvalidArgument, "the prompt is empty");
  return std::optional<std::string>(std::move(text));
}

// Messages may quote a hostile file.
int report(const Error& error, int code) {
  std::fflush(stdout);
  cli::print_error(fmt::format("ds4: {}\n", without_controls(error.message)));
  return code;
}

Result<int> run(const cli::Options& options, const std::optional<std::string>& prompt,
                cli::Trace& trace) {
  DS4_TRY(Model model, Model::open(options.model, {.allow_slice = options.allow_slice}));
  if (options.mode == cli::Mode::kInspect) {
    DS4_TRY_VOID(cli::inspect(model, options));
    return 0;
  }
  DS4_TRY(const Tokenizer tokenizer, Tokenizer::create(model.vocab()));
  if (options.mode == cli::Mode::kDumpTokens) {
    cli::dump_tokens(tokenizer, *prompt);
    return 0;
  }
  if (options.mode == cli::Mode::kPerplexity) {
    return cli::print_perplexity(std::move(model), tokenizer, options);
  }
  if (options.mode == cli::Mode::kImatrix) {
    return cli::make_imatrix(std::move(model), tokenizer, options);
  }
  if (!prompt) return cli::run_repl(std::move(model), tokenizer, options, trace);
  return cli::answer(std::move(model), tokenizer, *prompt, options, trace);
}

int guarded_main(int argc, char** argv) {
  app::fill_standard_descriptors();
  cli::install_signals();
  cli::Parsed parsed = cli::parse_options(argc, argv);
  if (parsed.exit_code) return *parsed.exit_code;
  cli::Options& options = parsed.options;
  read_environment(options);
  if (options.verbose) log::set_level(log::Level::kDebug);
  std::optional<std::string> prompt;
  if (needs_prompt(options.mode)) {
    auto text = read_prompt(options);
    if (!text) {
      const bool usage = text.error().code == ErrorCode::kInvalidArgument;
      return report(text.error(), usage ? cli::kExitUsage : cli::kExitFailed);
    }
    prompt = std::move(*text);
  }
  auto trace = cli::Trace::create(options.trace);
  if (!trace) return report(trace.error(), cli::kExitFailed);
  trace->start(options);
  const auto code = run(options, prompt, *trace);
  if (!code) {
    trace->error(code.error());
    return report(code.error(), cli::kExitFailed);
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    return report({ErrorCode::kIo, "standard output: cannot write"}, cli::kExitFailed);
  }
  return *code;
}

}  // namespace

int main(int argc, char** argv) {
  // What a library throws (memory, mostly) ends here instead of in terminate().
  try {
    return guarded_main(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ds4: %s\n", e.what());
    return ds4::cli::kExitFailed;
  }
}
