// ds4-quantize: makes GGUF files for ds4, from an official DeepSeek-V4 checkpoint or from each
// other.
//
// Exit codes: 0 written (or planned, shown, found equal); 1 it failed; 2 the command line has no
// meaning; 130 interrupted, with nothing left behind.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "convert_command.h"
#include "imatrix_command.h"
#include "inspect_command.h"
#include "report.h"
#include "splice_command.h"
#include "synth_command.h"

namespace {

using namespace ds4;

int run(int argc, char** argv) {
  CLI::App app(kConvertAbout, "ds4-quantize");
  app.footer(kConvertExamples);
  app.failure_message(CLI::FailureMessage::simple);
  app.require_subcommand(0, 1);
  ConvertFlags convert;
  add_convert_flags(app, convert);
  SpliceFlags splice;
  const CLI::App* splice_command = add_splice_command(app, splice);
  InspectFlags inspect;
  const CLI::App* inspect_command = add_inspect_command(app, inspect);
  ImatrixFlags imatrix;
  const CLI::App* imatrix_command = add_imatrix_command(app, imatrix);
  SynthCommand synth(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  if (splice_command->parsed()) return run_splice(splice);
  if (inspect_command->parsed()) return run_inspect(inspect);
  if (imatrix_command->parsed()) return run_imatrix(imatrix);
  if (synth.chosen()) return synth.run();
  return run_convert(convert);
}

}  // namespace

int main(int argc, char** argv) {
  // What a library throws (memory, mostly) ends here instead of in terminate().
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "ds4-quantize: {}\n", error.what());
    return ds4::kExitFailed;
  }
}
