#include "convert_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <optional>

#include "base/printable.h"
#include "quant/codec.h"
#include "quantizer/converter.h"
#include "quantizer/template_file.h"
#include "report.h"

namespace ds4 {

const char* const kConvertAbout =
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

const char* const kConvertExamples =
    R"(Types: f32 f16 bf16 q8_0 q4_k q2_k iq2_xxs mxfp4; case, '-' and '_' do not matter; "copy"
keeps what the template, or the recipe, has. A more special option wins: --tensor-type, then
-w1/-w2/-w3, then --experts, then the other families, then the template or the recipe.

An importance matrix (ds4 --imatrix-dataset makes one) tells the 2- and 4-bit encoders which
columns matter. With a template the new file has its metadata, order and types.

Examples:
  ds4-quantize --hf models/nano --out nano.gguf --recipe exact
  ds4-quantize --hf DeepSeek-V4-Flash --out flash-q2.gguf --recipe q2 --threads 16
  ds4-quantize --hf DeepSeek-V4-Flash --out q2i.gguf --recipe q2 --imatrix flash.imatrix.dat
  ds4-quantize --hf DeepSeek-V4-Flash --recipe q2 --dry-run
  ds4-quantize --hf DeepSeek-V4-Flash --out new.gguf --template published.gguf
  ds4-quantize --hf DeepSeek-V4-Flash --template published.gguf \
      --compare-tensor blk.3.ffn_down_exps.weight
  ds4-quantize inspect flash-q2.gguf
  ds4-quantize synth --shape flash:LAYERS=4 --recipe q2 --out slice.gguf

The file is written under a temporary name and appears when it is whole; Ctrl-C leaves nothing.
Exit codes: 0 done, 1 failed, 2 wrong command line, 130 interrupted.)";

void add_convert_flags(CLI::App& app, ConvertFlags& f) {
  app.add_option("--hf", f.hf_dir, "checkpoint folder")->type_name("DIR");
  app.add_option("--out", f.out, "GGUF file to write")->type_name("FILE");
  app.add_option("--template", f.template_path,
                 "GGUF file of the same model: its metadata, order and types instead of a recipe's")
      ->type_name("FILE");
  app.add_option("--recipe", f.recipe, "exact, mxfp4, q8_0, q4, q2 or mixed")
      ->type_name("NAME")
      ->default_str("mxfp4");
  app.add_option("--imatrix", f.imatrix, "importance matrix, .dat or GGUF")->type_name("FILE");
  app.add_flag("--imatrix-strict", f.imatrix_strict,
               "fail when a tensor that could use the matrix is not in it");
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
  app.add_option("--n-experts", f.n_experts,
                 "expert count to expect; the checkpoint's config decides")
      ->type_name("N");
  app.add_option("--threads", f.n_threads, "worker threads; 0: one per processor")
      ->check(CLI::Range(0, 1024));
  app.add_flag("--dry-run", f.dry_run, "check everything, print the plan, write nothing");
  app.add_option("--compare-tensor", f.compare_tensor,
                 "write nothing: make this one tensor and compare it with a file's")
      ->type_name("NAME");
  app.add_option("--compare-gguf", f.compare_gguf, "the file to compare with; else the template")
      ->type_name("FILE");
  app.add_flag("--overwrite", f.overwrite, "replace an existing output file");
}

namespace {

Result<std::optional<TypeChoice>> optional_type(const char* flag, const std::string& text) {
  if (text.empty()) return std::nullopt;
  auto type = type_choice_from_name(text);
  if (!type) return fail_within(flag, std::move(type.error()));
  return *type;
}

Result<TypeOverrides> overrides_of(const ConvertFlags& f) {
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
    DS4_TRY(const TypeChoice type, type_choice_from_name(text.substr(equals + 1)));
    o.tensors.emplace_back(text.substr(0, equals), type);
  }
  return o;
}

tl::unexpected<Error> wrong_usage(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

Result<void> check_flags(const ConvertFlags& f) {
  if (f.hf_dir.empty()) return wrong_usage("--hf DIR is required (see --help)");
  const bool writes = !f.dry_run && f.compare_tensor.empty();
  if (writes && f.out.empty()) return wrong_usage("--out FILE is required (see --help)");
  if (f.imatrix_strict && f.imatrix.empty()) {
    return wrong_usage("--imatrix-strict: there is no --imatrix");
  }
  if (!f.compare_tensor.empty() && f.compare_gguf.empty() && f.template_path.empty()) {
    return wrong_usage("--compare-tensor: --compare-gguf FILE or --template FILE is needed");
  }
  if (!f.compare_gguf.empty() && f.compare_tensor.empty()) {
    return wrong_usage("--compare-gguf: there is no --compare-tensor");
  }
  if (!f.template_path.empty() && !(f.recipe.empty() && f.mixed_layers.empty() && !f.no_mtp)) {
    return wrong_usage(
        "--template: tensors and types come from it, so --recipe, --mixed-layers "
        "and --no-mtp have no meaning");
  }
  return {};
}

Result<PlanOptions> plan_options(const ConvertFlags& f) {
  DS4_TRY_VOID(check_flags(f));
  PlanOptions options;
  options.hf_dir = f.hf_dir;
  options.template_path = f.template_path;
  options.effort_profile = f.effort_profile;
  options.with_mtp = !f.no_mtp;
  options.imatrix_path = f.imatrix;
  options.imatrix_strict = f.imatrix_strict;
  DS4_TRY(options.recipe, recipe_from_name(f.recipe.empty() ? "mxfp4" : f.recipe));
  DS4_TRY(options.overrides, overrides_of(f));
  DS4_TRY(options.overrides.mixed_layers, mixed_layers_from_flag(options.recipe, f.mixed_layers));
  return options;
}

Result<Conversion> plan(const ConvertFlags& f) {
  DS4_TRY(const PlanOptions options, plan_options(f));
  DS4_TRY(Conversion conversion, Conversion::plan(options));
  const int64_t n_experts = conversion.config().n_experts;
  if (f.n_experts != 0 && f.n_experts != n_experts) {
    return wrong_usage(
        fmt::format("--n-experts: the checkpoint has {}, not {}", n_experts, f.n_experts));
  }
  return conversion;
}

void describe(const Conversion& conversion, bool with_changes) {
  fmt::print(stderr, "model    DeepSeek V4 {}{}\nsource   {:.3f} GiB\n{}", conversion.config().name,
             conversion.has_mtp() ? " with its MTP block" : "",
             static_cast<double>(conversion.source_bytes()) / (1 << 30),
             describe_layout(conversion.layout()));
  if (with_changes) {
    for (const std::string& change : conversion.type_changes()) {
      fmt::print("{}\n", without_controls(change));
    }
  }
  for (const std::string& warning : conversion.warnings()) {
    fmt::print(stderr, "warning: {}\n", without_controls(warning));
  }
}

// Prints both sides on stdout; equal is 0, different 1.
Result<int> compare(const ConvertFlags& f, const Conversion& conversion) {
  const std::string& path = f.compare_gguf.empty() ? f.template_path : f.compare_gguf;
  DS4_TRY(const gguf::File other, open_named_gguf(path));
  TensorComparison c;
  DS4_TRY_VOID(interruptible([&](std::stop_token stop) -> Result<void> {
    DS4_TRY(c, conversion.compare(f.compare_tensor, other, f.n_threads, std::move(stop)));
    return {};
  }));
  fmt::print("tensor {}\nours   {} {} bytes fnv1a64 {:016x}\ntheirs {} {} bytes fnv1a64 {:016x}\n",
             f.compare_tensor, dtype_name(c.our_type), c.our_bytes, c.our_hash, c.their_type,
             c.their_bytes, c.their_hash);
  if (c.equal()) {
    fmt::print("equal\n");
  } else {
    fmt::print("different: {} bytes, the first at offset {}\n", c.n_different, c.first_different);
  }
  return c.equal() ? 0 : kExitFailed;
}

}  // namespace

Result<std::optional<LayerSet>> mixed_layers_from_flag(Recipe recipe, const std::string& text) {
  if (text.empty()) return std::nullopt;
  if (recipe != Recipe::kMixed) {
    return fail(ErrorCode::kInvalidArgument, "--mixed-layers: only the recipe mixed has them");
  }
  auto layers = LayerSet::parse(text);
  if (!layers) return fail_within("--mixed-layers", std::move(layers.error()));
  return *layers;
}

int run_convert(const ConvertFlags& f) {
  const auto conversion = plan(f);
  if (!conversion) return report_failure(conversion.error());
  if (!f.compare_tensor.empty()) {
    const auto code = compare(f, *conversion);
    return code ? *code : report_failure(code.error());
  }
  describe(*conversion, f.dry_run);
  if (f.dry_run) return 0;
  return write_file(
      f.out, conversion->layout(), [&](std::stop_token stop, ConvertProgress& progress) {
        return conversion->run(f.out, {.n_threads = f.n_threads, .overwrite = f.overwrite},
                               std::move(stop), progress);
      });
}

}  // namespace ds4
