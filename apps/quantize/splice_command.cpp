#include "splice_command.h"

#include <fmt/format.h>

#include <cstdio>

#include "quantizer/splice.h"
#include "report.h"

namespace ds4 {
namespace {

Result<Splice> plan(const SpliceFlags& f) {
  auto layers = LayerSet::parse(f.layers);
  if (!layers) return fail_within("--layers", std::move(layers.error()));
  if (!f.dry_run && f.out.empty()) {
    return fail(ErrorCode::kInvalidArgument, "--out FILE is required (see splice --help)");
  }
  return Splice::plan(f.base, f.donor, *layers);
}

}  // namespace

CLI::App* add_splice_command(CLI::App& app, SpliceFlags& f) {
  CLI::App* splice = app.add_subcommand(
      "splice", "make a file from two: routed experts of some layers from a donor");
  splice->footer(
      "Example: the last six layers of Flash at four bits, the rest at two\n"
      "  ds4-quantize splice --base q2.gguf --donor q4.gguf --layers 37-42 --out mixed.gguf");
  splice->add_option("--base", f.base, "everything else, metadata included")
      ->required()
      ->type_name("FILE");
  splice->add_option("--donor", f.donor, "routed experts of the layers")
      ->required()
      ->type_name("FILE");
  splice->add_option("--layers", f.layers, "as in 37-42 or 0-2,40-42")
      ->required()
      ->type_name("LIST");
  splice->add_option("--out", f.out, "GGUF file to write")->type_name("FILE");
  splice->add_flag("--dry-run", f.dry_run, "check and print sizes, write nothing");
  splice->add_flag("--overwrite", f.overwrite, "replace an existing output file");
  return splice;
}

int run_splice(const SpliceFlags& f) {
  const auto splice = plan(f);
  if (!splice) return report_failure(splice.error());
  fmt::print(stderr, "{} tensors from the donor, {:+} bytes against the base\n{}",
             splice->n_from_donor(), splice->bytes_more(), describe_layout(splice->layout()));
  if (f.dry_run) return 0;
  return write_file(f.out, splice->layout(), [&](std::stop_token stop, ConvertProgress& progress) {
    return splice->run(f.out, {.overwrite = f.overwrite}, std::move(stop), progress);
  });
}

}  // namespace ds4
