// ds4-bench: how fast a model reads and answers at growing depths of context (run.cpp, sweep.h),
// and what the machine could do (machine.cpp). The one file that reads the environment.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "base/log.h"
#include "common/program.h"
#include "common/signals.h"
#include "run.h"

namespace {

using namespace ds4;

// Messages may quote a hostile file.
int report(const Error& error) {
  std::fflush(stdout);
  app::print_error(fmt::format("ds4-bench: {}\n", without_controls(error.message)));
  return app::kExitFailed;
}

int guarded_main(int argc, char** argv) {
  app::fill_standard_descriptors();
  app::install_signals();
  bench::Parsed parsed = bench::parse_options(argc, argv);
  if (parsed.exit_code) return *parsed.exit_code;
  parsed.options.screen = app::Screen::detect(std::getenv("TERM"));
  if (parsed.options.verbose) log::set_level(log::Level::kDebug);
  const auto code = parsed.options.machine ? bench::show_machine(parsed.options)
                                           : bench::run_sweep(parsed.options);
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
    std::fprintf(stderr, "ds4-bench: %s\n", e.what());
    return ds4::app::kExitFailed;
  }
}
