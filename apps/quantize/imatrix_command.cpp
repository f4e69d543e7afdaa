#include "imatrix_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>

#include "base/printable.h"
#include "quantizer/imatrix.h"
#include "report.h"

namespace ds4 {
namespace {

std::string describe(const std::string& name, const ImatrixEntry& entry) {
  const auto [low, high] = std::minmax_element(entry.means.begin(), entry.means.end());
  std::string text =
      fmt::format("  {:<34} {:>9} values {:.3g} .. {:.3g}", name, entry.means.size(), *low, *high);
  if (!entry.counts.empty()) {
    const auto [fewest, most] = std::minmax_element(entry.counts.begin(), entry.counts.end());
    text += fmt::format("; {} matrices, used {} .. {} times, {} never", entry.counts.size(),
                        *fewest, *most, std::count(entry.counts.begin(), entry.counts.end(), 0));
  }
  return text;
}

Result<void> run(const ImatrixFlags& f) {
  DS4_TRY(Imatrix merged, Imatrix::read(f.files.front()));
  for (size_t i = 1; i < f.files.size(); ++i) {
    DS4_TRY(const Imatrix next, Imatrix::read(f.files[i]));
    auto added = merged.merge(next);
    if (!added) return fail_within(f.files[i], std::move(added.error()));
  }
  fmt::print("{} entries, {} chunks, data sets: {}\n", merged.entries.size(), merged.n_chunks,
             without_controls(fmt::format("{}", fmt::join(merged.datasets, ", "))));
  for (const auto& [name, entry] : merged.entries) {
    fmt::print("{}\n", without_controls(describe(name, entry)));
  }
  if (f.out.empty()) return {};
  DS4_TRY_VOID(merged.write(f.out, f.overwrite));
  fmt::print(stderr, "wrote {}\n", f.out);
  return {};
}

}  // namespace

CLI::App* add_imatrix_command(CLI::App& app, ImatrixFlags& f) {
  CLI::App* imatrix =
      app.add_subcommand("imatrix", "show importance matrices; merge and convert them");
  imatrix->footer(
      "Several files are merged, weighted by how often each expert was used (GGUF form) or by\n"
      "their number of chunks (.dat). ds4 --imatrix-dataset makes such files.\n\n"
      "Examples:\n"
      "  ds4-quantize imatrix flash.imatrix.dat\n"
      "  ds4-quantize imatrix a.gguf b.gguf --out both.gguf");
  imatrix->add_option("files", f.files, "importance matrices, .dat or GGUF")
      ->required()
      ->type_name("FILE");
  imatrix->add_option("--out", f.out, "write the result: GGUF for a name in .gguf, else .dat")
      ->type_name("FILE");
  imatrix->add_flag("--overwrite", f.overwrite, "replace an existing output file");
  return imatrix;
}

int run_imatrix(const ImatrixFlags& flags) {
  const auto done = run(flags);
  if (done) return 0;
  report_failure(done.error());
  return kExitFailed;
}

}  // namespace ds4
