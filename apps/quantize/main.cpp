// ds4-quantize: an official DeepSeek-V4 checkpoint to a GGUF file that ds4 runs; and, as commands,
// other ways to make such files.
//
// Exit codes: 0 written (or planned, with --dry-run); 1 the conversion failed; 2 the command line
// has no meaning; 130 interrupted, with nothing left behind.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "quant/codec.h"
#include "quantizer/converter.h"
#include "report.h"
#include "synth_command.h"
#include "writing.h"

namespace {

using namespace ds4;

constexpr const char* kAbout =
    R"(Converts an official DeepSeek-V4 checkpoint (Hugging Face folder with config.json,
tokenizer.json and safetensors shards) to one GGUF file for ds4.

A recipe decides the types. Routed experts are 97 % of the weights, so they decide
the size; bits are those of one expert weight:

  exact   4.25 bits  nothing is lost: FP4 experts repacked as MXFP4, the rest BF16 / F32
  mxfp4   4.25 bits  experts as in exact; projections Q8_0, the rest F16
  q8_0    8.5  bits  experts Q8_0; for small models and comparisons
  q4      4.5  bits  experts Q4_K
  q2      2.06 / 2.6 gate and up IQ2_XXS, down Q2_K: the smallest
  mixed              q4 in the last sixth of the layers, q2 in the others)";

constexpr const char* kExamples =
    R"(Types: f32 f16 bf16 q8_0 q4_k q2_k iq2_xxs mxfp4; case, '-' and '_' do not matter.
A more special option wins: --tensor-type, then -w1/-w2/-w3, then --experts, then the recipe.

Examples:
  ds4-quantize --hf models/nano --out nano.gguf --recipe exact
  ds4-quantize --hf DeepSeek-V4-Flash --out flash-q2.gguf --recipe q2 --threads 16
  ds4-quantize --hf DeepSeek-V4-Flash --out x.gguf --recipe q2 --dry-run
  ds4-quantize --hf DeepSeek-V4-Flash --out mixed.gguf --recipe mixed --mixed-layers 37-42
  ds4-quantize --hf DeepSeek-V4-Flash --out x.gguf --recipe q2 --tensor-type blk.42.=f16
  ds4-quantize synth --shape flash:LAYERS=4 --recipe q2 --out slice.gguf

The file is written under a temporary name and appears when it is whole; Ctrl-C leaves nothing.
Exit codes: 0 done, 1 failed, 2 wrong command line, 130 interrupted.)";

// Flags as they were typed.
struct Flags {
  std::string hf_dir, out, recipe = "mxfp4", mixed_layers, effort_profile = "preview";
  std::string routed, gate, down, up, attention_proj, attention, shared, embedding, output, dense;
  std::vector<std::string> tensor_types;
  int n_threads = 0;
  bool no_mtp = false;
  bool dry_run = false;
  bool overwrite = false;
};

void add_flags(CLI::App& app, Flags& f) {
  app.add_option("--hf", f.hf_dir, "checkpoint folder")->type_name("DIR");
  app.add_option("--out", f.out, "GGUF file to write")->type_name("FILE");
  app.add_option("--recipe", f.recipe, "exact, mxfp4, q8_0, q4, q2 or mixed")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--mixed-layers", f.mixed_layers,
                 "layers that the recipe mixed makes q4, as in 37-42 or 0-2,40")
      ->type_name("LIST");
  const auto type = [&](const char* names, std::string& value, const char* about) {
    app.add_option(names, value, about)->type_name("TYPE")->group("Types by family");
  };
  type("--experts,--routed", f.routed, "routed experts, all three matrices");
  type("--routed-w1,--routed-gate", f.gate, "their gate matrices");
  type("--routed-w2,--routed-down", f.down, "their down matrices");
  type("--routed-w3,--routed-up", f.up, "their up matrices (must equal gate)");
  type("--attention-proj", f.attention_proj, "attention projections, MTP input projections");
  type("--attention", f.attention, "compressor and indexer matrices");
  type("--shared", f.shared, "shared experts");
  type("--embedding", f.embedding, "token embedding");
  type("--output", f.output, "output head");
  type("--dense", f.dense, "hyper-connection mixes and router");
  app.add_option("--tensor-type", f.tensor_types,
                 "one tensor, or all whose name begins with NAME; repeatable")
      ->type_name("NAME=TYPE")
      ->group("Types by family");
  app.add_option(
         "--effort-profile", f.effort_profile,
         "prompt texts of the effort levels: preview (first releases) or official (0731 on)")
      ->check(CLI::IsMember({"preview", "official"}))
      ->capture_default_str();
  app.add_flag("--no-mtp", f.no_mtp,
               "leave out the MTP draft block; llama.cpp refuses a file that carries it");
  app.add_option("--threads", f.n_threads, "worker threads; 0: one per processor")
      ->check(CLI::Range(0, 1024));
  app.add_flag("--dry-run", f.dry_run, "check everything, print the plan, write nothing");
  app.add_flag("--overwrite", f.overwrite, "replace an existing output file");
}

Result<std::optional<DType>> optional_type(const char* flag, const std::string& text) {
  if (text.empty()) return std::nullopt;
  auto type = dtype_from_name(text);
  if (!type) return fail_within(flag, std::move(type.error()));
  return *type;
}

Result<TypeOverrides> overrides_of(const Flags& f) {
  TypeOverrides o;
  DS4_TRY(o.routed, optional_type("--experts", f.routed));
  DS4_TRY(o.routed_gate, optional_type("--routed-w1", f.gate));
  DS4_TRY(o.routed_down, optional_type("--routed-w2", f.down));
  DS4_TRY(o.routed_up, optional_type("--routed-w3", f.up));
  DS4_TRY(o.attention_proj, optional_type("--attention-proj", f.attention_proj));
  DS4_TRY(o.attention, optional_type("--attention", f.attention));
  DS4_TRY(o.shared, optional_type("--shared", f.shared));
  DS4_TRY(o.embedding, optional_type("--embedding", f.embedding));
  DS4_TRY(o.output, optional_type("--output", f.output));
  DS4_TRY(o.dense, optional_type("--dense", f.dense));
  for (const std::string& text : f.tensor_types) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("--tensor-type: NAME=TYPE expected, found {}", text));
    }
    DS4_TRY(const DType type, dtype_from_name(text.substr(equals + 1)));
    o.tensors.emplace_back(text.substr(0, equals), type);
  }
  return o;
}

Result<PlanOptions> plan_options(const Flags& f) {
  PlanOptions options;
  options.hf_dir = f.hf_dir;
  options.effort_profile = f.effort_profile;
  options.with_mtp = !f.no_mtp;
  DS4_TRY(options.recipe, recipe_from_name(f.recipe));
  DS4_TRY(options.overrides, overrides_of(f));
  DS4_TRY(options.overrides.mixed_layers, mixed_layers_from_flag(options.recipe, f.mixed_layers));
  return options;
}

int convert(const Flags& flags, const Conversion& conversion) {
  const RunOptions options{.n_threads = flags.n_threads, .overwrite = flags.overwrite};
  return write_reported(conversion.layout(), flags.out,
                        [&](std::stop_token stop, ConvertProgress& progress) {
                          return conversion.run(flags.out, options, std::move(stop), progress);
                        });
}

int run_conversion(const Flags& flags) {
  const auto options = plan_options(flags);
  if (!options) return report_failure(options.error(), kExitUsage);
  const auto conversion = Conversion::plan(*options);
  if (!conversion) return report_plan_failure(conversion.error());
  fmt::print(stderr, "{}", describe_plan(*conversion));
  return flags.dry_run ? kExitDone : convert(flags, *conversion);
}

int run(int argc, char** argv) {
  CLI::App app(kAbout, "ds4-quantize");
  app.footer(kExamples);
  app.failure_message(CLI::FailureMessage::simple);
  Flags flags;
  add_flags(app, flags);
  SynthCommand synth(app);
  app.require_subcommand(0, 1);
  try {
    app.parse(argc, argv);
    // Not required() in CLI11's sense, which would hold for commands, too.
    if (!synth.chosen()) {
      for (const char* flag : {"--hf", "--out"}) {
        if (app.count(flag) == 0) throw CLI::RequiredError(flag);
      }
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitDone : kExitUsage;
  }
  return synth.chosen() ? synth.run() : run_conversion(flags);
}

}  // namespace

int main(int argc, char** argv) {
  // What a library throws (memory, mostly) ends here instead of in terminate().
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "ds4-quantize: {}\n", error.what());
    return kExitFailed;
  }
}
