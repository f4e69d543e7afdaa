// ds4-eval: asks a model questions whose answers are known (run.cpp), and measures how it predicts
// given texts (score.cpp). The one file that reads the environment.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "base/log.h"
#include "common/program.h"
#include "common/signals.h"
#include "program.h"

namespace {

using namespace ds4;

Result<int> run(const evaluate::Options& options) {
  switch (options.mode) {
    case evaluate::Mode::kRun:
      return evaluate::run_cases(options);
    case evaluate::Mode::kListCases:
      return evaluate::list_cases(options);
    case evaluate::Mode::kSelfTest:
      return evaluate::self_test_extractors();
    case evaluate::Mode::kRegrade:
      return evaluate::regrade(options);
    case evaluate::Mode::kCompare:
      return evaluate::compare(options);
    case evaluate::Mode::kContinuations:
      return evaluate::score_continuations(options);
    case evaluate::Mode::kCompareScores:
      return evaluate::compare_scores(options);
    case evaluate::Mode::kRenderCases:
      return evaluate::render_cases(options);
    case evaluate::Mode::kText:
      return evaluate::score_text(options);
  }
  return 0;
}

// Messages may quote a hostile file.
int report(const Error& error) {
  std::fflush(stdout);
  app::print_error(fmt::format("ds4-eval: {}\n", without_controls(error.message)));
  return app::kExitFailed;
}

int guarded_main(int argc, char** argv) {
  app::fill_standard_descriptors();
  app::install_signals();
  evaluate::Parsed parsed = evaluate::parse_options(argc, argv);
  if (parsed.exit_code) return *parsed.exit_code;
  parsed.options.screen = app::Screen::detect(std::getenv("TERM"));
  if (parsed.options.verbose) log::set_level(log::Level::kDebug);
  const auto code = run(parsed.options);
  if (!code) return report(code.error());
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    return report({ErrorCode::kIo, "standard output: cannot write"});
  }
  return *code;
}

}  // namespace

int main(int argc, char** argv) {
  // What a library throws (memory, mostly) ends here instead of in terminate().
  try {
    return guarded_main(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ds4-eval: %s\n", e.what());
    return ds4::app::kExitFailed;
  }
}
