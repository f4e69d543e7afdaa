// ds4: answers a prompt with a DeepSeek-V4 model. The main path through the project starts here:
// options -> model -> tokenizer -> engine and session (engine/session.h) -> tokens as they come.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>

#include "answer.h"
#include "base/log.h"
#include "options.h"

namespace {

using namespace ds4;

volatile std::sig_atomic_t g_interrupted = 0;

// The first Ctrl-C stops after the token or chunk in work; the second ends the program at once.
void on_signal(int signal) {
  g_interrupted = 1;
  std::signal(signal, SIG_DFL);
}

constexpr size_t kPromptBytesMax = size_t{64} << 20;

Result<std::string> read_all(const std::string& path) {
  const bool is_stdin = path == "-";
  const std::string name = is_stdin ? "standard input" : path;
  std::unique_ptr<FILE, int (*)(FILE*)> file(
      is_stdin ? stdin : std::fopen(path.c_str(), "rb"),
      [](FILE* f) { return f == stdin ? 0 : std::fclose(f); });
  if (file == nullptr) {
    return fail(ErrorCode::kNotFound,
                fmt::format("{}: cannot open: {}", name, std::strerror(errno)));
  }
  std::string text;
  char buffer[65536];
  while (const size_t n = std::fread(buffer, 1, sizeof(buffer), file.get())) {
    text.append(buffer, n);
    if (text.size() > kPromptBytesMax) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: expected a prompt of at most {} bytes", name, kPromptBytesMax));
    }
  }
  if (std::ferror(file.get()) != 0) {
    return fail(ErrorCode::kIo, fmt::format("{}: cannot read: {}", name, std::strerror(errno)));
  }
  return text;
}

Result<std::string> read_prompt(const cli::Options& options) {
  if (options.mode == cli::Mode::kInspect) return std::string();
  std::string text;
  if (options.prompt) {
    text = *options.prompt;
  } else if (options.prompt_file) {
    DS4_TRY(text, read_all(*options.prompt_file));
  } else if (isatty(STDIN_FILENO) == 0) {
    DS4_TRY(text, read_all("-"));
  } else {
    return fail(
        ErrorCode::kInvalidArgument,
        "no prompt: give -p TEXT, --prompt-file FILE, or - to read standard input (--help)");
  }
  if (text.empty()) return fail(ErrorCode::kInvalidArgument, "the prompt is empty");
  return text;
}

int report(const Error& error, int code) {
  std::fflush(stdout);
  fmt::print(stderr, "ds4: {}\n", error.message);
  return code;
}

Result<int> run(const cli::Options& options, const std::string& prompt) {
  DS4_TRY(Model model, Model::open(options.model));
  if (options.mode == cli::Mode::kInspect) {
    DS4_TRY_VOID(cli::inspect(model, options));
    return 0;
  }
  DS4_TRY(const Tokenizer tokenizer, Tokenizer::create(model.vocab()));
  if (options.mode == cli::Mode::kDumpTokens) {
    cli::dump_tokens(tokenizer, prompt);
    return 0;
  }
  return cli::answer(std::move(model), tokenizer, prompt, options, g_interrupted);
}

int guarded_main(int argc, char** argv) {
  const cli::Parsed parsed = cli::parse_options(argc, argv);
  if (parsed.exit_code) return *parsed.exit_code;
  if (parsed.options.verbose) log::set_level(log::Level::kDebug);
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  const auto prompt = read_prompt(parsed.options);
  if (!prompt) {
    const bool usage = prompt.error().code == ErrorCode::kInvalidArgument;
    return report(prompt.error(), usage ? cli::kExitUsage : cli::kExitFailed);
  }
  const auto code = run(parsed.options, *prompt);
  return code ? *code : report(code.error(), cli::kExitFailed);
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
