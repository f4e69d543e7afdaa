#include "synth_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <utility>

#include "check.h"
#include "convert_command.h"
#include "report.h"

namespace ds4 {
namespace {

constexpr const char* kAbout =
    R"(Writes a model file of a known shape with random weights: tensors, types, sizes, metadata and
vocabulary are those of a real file, so it loads, fills memory and computes like one. What it says
means nothing. The same seed gives the same bytes, whatever the number of threads.

A shape is flash, pro or nano, or its first layers: flash:LAYERS=4 has one layer of each
kind. Such a slice is marked, and ds4 loads it with --allow-slice only.)";

constexpr const char* kExamples =
    R"(Examples:
  ds4-quantize synth --shape nano --recipe q2 --out nano-random.gguf
  ds4-quantize synth --shape flash:LAYERS=4 --recipe q4 --out slice.gguf
  ds4 -m slice.gguf --allow-slice --raw-prompt -p "Once upon a time" -n 16
  ds4-quantize synth --shape flash --recipe mixed --mixed-layers 37-42 --out mixed.gguf
  ds4-quantize synth --shape pro --recipe q2 --sparse --out pro.gguf)";

// About the scale of the streams after the last layer, times a hundred: a model that grows more
// than this in its layers is not one to measure with.
constexpr double kHiddenMax = 1000;

// For what is wrong with a file that has been written.
int failed(const Error& error) {
  report_failure(error);
  return kExitFailed;
}

}  // namespace

SynthCommand::SynthCommand(CLI::App& app) {
  command_ = app.add_subcommand("synth", kAbout);
  command_->footer(kExamples);
  command_->add_option("--shape", shape_, "flash, pro or nano, whole or as in flash:LAYERS=4")
      ->required()
      ->type_name("SHAPE");
  command_->add_option("--out", out_, "GGUF file to write")->required()->type_name("FILE");
  command_->add_option("--recipe", recipe_, "q2, q4, mxfp4, mixed, q8_0 or exact")
      ->type_name("NAME")
      ->capture_default_str();
  command_
      ->add_option("--mixed-layers", mixed_layers_,
                   "layers that the recipe mixed makes q4, as in 37-42 or 0-2,40")
      ->type_name("LIST");
  command_
      ->add_option("--routing", routing_,
                   "uniform: experts get like numbers of tokens; skewed: a few get many")
      ->type_name("NAME")
      ->capture_default_str();
  command_->add_option("--seed", seed_, "of the random weights")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command_->add_option("--threads", n_threads_, "worker threads; 0: one per processor")
      ->check(CLI::Range(0, 1024));
  command_->add_flag("--overwrite", overwrite_, "replace an existing output file");
  command_->add_flag("--dry-run", dry_run_, "print the plan, write nothing");
  command_->add_flag("--sparse", sparse_,
                     "leave the data as a hole, all zeros: for loaders and --inspect only");
  auto* check = command_->add_flag("--check", check_,
                                   "read the file again and walk tokens through all layers; "
                                   "default for slices and nano");
  command_->add_flag("--no-check", no_check_, "do not")->excludes(check);
  command_->add_option("--check-tokens", check_tokens_, "tokens to walk")
      ->check(CLI::Range(int64_t{1}, int64_t{65536}))
      ->capture_default_str();
}

bool SynthCommand::chosen() const { return command_->parsed(); }

Result<SynthOptions> SynthCommand::options() const {
  SynthOptions options;
  DS4_TRY(options.config, config_from_shape(shape_));
  DS4_TRY(options.recipe, recipe_from_name(recipe_));
  DS4_TRY(options.overrides.mixed_layers, mixed_layers_from_flag(options.recipe, mixed_layers_));
  DS4_TRY(options.routing, routing_from_name(routing_));
  options.seed = static_cast<uint64_t>(seed_);
  options.sparse = sparse_;
  if (sparse_ && check_) {
    return fail(ErrorCode::kInvalidArgument,
                "--sparse and --check: a file without data has "
                "nothing to check");
  }
  return options;
}

bool SynthCommand::wants_check(const ModelConfig& config) const {
  if (sparse_ || no_check_) return false;
  return check_ || config.is_slice() || config.name == nano_config().name;
}

int SynthCommand::run() const {
  const auto chosen = options();
  if (!chosen) return report_failure(chosen.error());
  const auto synth = Synth::plan(*chosen);
  if (!synth) return report_failure(synth.error());
  const ModelConfig& config = synth->config();
  const std::string slice = config.is_slice() ? fmt::format(", first {} of {} layers",
                                                            config.n_layers, config.slice_of_layers)
                                              : "";
  fmt::print(stderr, "model    DeepSeek V4 {}{}, synthetic: seed {}, {} routing{}\n{}", config.name,
             slice, seed_, routing_name(chosen->routing), sparse_ ? ", no data" : "",
             describe_layout(synth->layout()));
  if (dry_run_) return 0;
  const RunOptions run_options{.n_threads = n_threads_, .overwrite = overwrite_};
  const int code =
      write_file(out_, synth->layout(), [&](std::stop_token stop, ConvertProgress& progress) {
        return synth->run(out_, run_options, std::move(stop), progress);
      });
  if (code != 0) return code;
  if (sparse_)
    fmt::print(stderr, "sparse: the data is all zeros; for loading and --inspect only\n");
  return wants_check(config) ? check(*chosen) : 0;
}

int SynthCommand::check(const SynthOptions& chosen) const {
  const auto model = Model::open(out_, {.allow_slice = true});
  if (!model) return failed(model.error());
  const auto found = check_model(
      *model, {.n_threads = n_threads_, .n_tokens = check_tokens_, .seed = chosen.seed});
  if (!found) return failed(found.error());
  fmt::print(stderr, "{}", describe_check(*found));
  const auto passed = found->verdict(kHiddenMax);
  return passed ? 0 : failed(passed.error());
}

}  // namespace ds4
