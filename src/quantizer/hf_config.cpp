#include "quantizer/hf_config.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/mapped_file.h"

namespace ds4 {
namespace {

using nlohmann::json;

constexpr size_t kMaxConfigBytes = 1 << 20;
constexpr int kMaxDepth = 16;

struct NumberField {
  const char* path;  // JSON pointer
  double (*expected)(const ModelConfig&);
};
double number(int64_t value) { return static_cast<double>(value); }

// Order is that of a reader comparing two models: what tells them apart comes first.
constexpr std::array kFields{
    NumberField{"/num_hidden_layers", [](const ModelConfig& c) { return number(c.n_layers); }},
    NumberField{"/hidden_size", [](const ModelConfig& c) { return number(c.hidden); }},
    NumberField{"/vocab_size", [](const ModelConfig& c) { return number(c.vocab_size); }},
    NumberField{"/num_attention_heads", [](const ModelConfig& c) { return number(c.n_heads); }},
    NumberField{"/head_dim", [](const ModelConfig& c) { return number(c.head_dim); }},
    NumberField{"/qk_rope_head_dim", [](const ModelConfig& c) { return number(c.rope_head_dim); }},
    NumberField{"/q_lora_rank", [](const ModelConfig& c) { return number(c.q_lora_rank); }},
    NumberField{"/o_groups", [](const ModelConfig& c) { return number(c.o_groups); }},
    NumberField{"/o_lora_rank", [](const ModelConfig& c) { return number(c.o_lora_rank); }},
    NumberField{"/n_routed_experts", [](const ModelConfig& c) { return number(c.n_experts); }},
    NumberField{"/num_experts_per_tok",
                [](const ModelConfig& c) { return number(c.n_experts_used); }},
    NumberField{"/n_shared_experts",
                [](const ModelConfig& c) { return number(c.n_shared_experts); }},
    NumberField{"/moe_intermediate_size",
                [](const ModelConfig& c) { return number(c.expert_ffn); }},
    NumberField{"/num_hash_layers", [](const ModelConfig& c) { return number(c.n_hash_layers); }},
    NumberField{"/sliding_window", [](const ModelConfig& c) { return number(c.window); }},
    NumberField{"/index_n_heads", [](const ModelConfig& c) { return number(c.index_n_heads); }},
    NumberField{"/index_head_dim", [](const ModelConfig& c) { return number(c.index_head_dim); }},
    NumberField{"/index_topk", [](const ModelConfig& c) { return number(c.index_topk); }},
    NumberField{"/hc_mult", [](const ModelConfig& c) { return number(c.n_hc); }},
    NumberField{"/hc_sinkhorn_iters",
                [](const ModelConfig& c) { return number(c.hc_sinkhorn_iters); }},
    NumberField{"/routed_scaling_factor",
                [](const ModelConfig& c) -> double { return c.routed_scale; }},
    NumberField{"/swiglu_limit", [](const ModelConfig& c) -> double { return c.swiglu_limit; }},
    NumberField{"/hc_eps", [](const ModelConfig& c) -> double { return c.hc_eps; }},
    NumberField{"/rms_norm_eps", [](const ModelConfig& c) -> double { return c.rms_eps; }},
    NumberField{"/rope_theta", [](const ModelConfig& c) -> double { return c.rope_base; }},
    NumberField{"/compress_rope_theta",
                [](const ModelConfig& c) -> double { return c.compress_rope_base; }},
    NumberField{"/rope_scaling/factor",
                [](const ModelConfig& c) -> double { return c.yarn_factor; }},
    NumberField{"/rope_scaling/original_max_position_embeddings",
                [](const ModelConfig& c) { return number(c.yarn_original_ctx); }},
    NumberField{"/rope_scaling/beta_fast",
                [](const ModelConfig& c) -> double { return c.yarn_beta_fast; }},
    NumberField{"/rope_scaling/beta_slow",
                [](const ModelConfig& c) -> double { return c.yarn_beta_slow; }},
};

// Fields that may be left out, but mean something else with another value.
struct FixedField {
  const char* path;
  const char* expected;  // as JSON
};
constexpr std::array kFixed{
    FixedField{"/model_type", R"("deepseek_v4")"},
    FixedField{"/num_key_value_heads", "1"},
    FixedField{"/scoring_func", R"("sqrtsoftplus")"},
    FixedField{"/norm_topk_prob", "true"},
    FixedField{"/tie_word_embeddings", "false"},
    FixedField{"/attention_bias", "false"},
    FixedField{"/hidden_act", R"("silu")"},
    FixedField{"/expert_dtype", R"("fp4")"},
    FixedField{"/rope_scaling/type", R"("yarn")"},
    FixedField{"/rope_scaling/rope_type", R"("yarn")"},
    FixedField{"/quantization_config/quant_method", R"("fp8")"},
    FixedField{"/quantization_config/fmt", R"("e4m3")"},
    FixedField{"/quantization_config/scale_fmt", R"("ue8m0")"},
    FixedField{"/quantization_config/weight_block_size", "[128,128]"},
};

// The value at a pointer, or null.
const json* at(const json& root, const char* path) {
  const json::json_pointer pointer(path);
  return root.contains(pointer) ? &root.at(pointer) : nullptr;
}

std::optional<double> number_at(const json& root, const char* path) {
  const json* value = at(root, path);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  return value->get<double>();
}

bool same(double found, double expected) {
  return std::abs(found - expected) <= 1e-6 * std::abs(expected);
}

tl::unexpected<Error> differs(std::string_view file, std::string_view model, const char* path,
                              const json* found, std::string_view expected) {
  return fail(ErrorCode::kUnsupported,
              fmt::format("{}: {} ({}): expected {}, found {}", file, path + 1, model, expected,
                          found == nullptr ? "nothing" : found->dump()));
}

size_t n_equal_fields(const json& root, const ModelConfig& shape) {
  size_t n = 0;
  for (const NumberField& f : kFields) {
    const auto found = number_at(root, f.path);
    if (found && same(*found, f.expected(shape))) ++n;
  }
  return n;
}

const ModelConfig& nearest_shape(const json& root) {
  const ModelConfig* best = &flash_config();
  for (const ModelConfig* shape : {&pro_config(), &nano_config()}) {
    if (n_equal_fields(root, *shape) > n_equal_fields(root, *best)) best = shape;
  }
  return *best;
}

Result<void> check_ratios(std::string_view file, const json& root, const ModelConfig& shape) {
  constexpr const char* kPath = "/compress_ratios";
  const json* ratios = at(root, kPath);
  if (ratios == nullptr || !ratios->is_array() || ratios->size() < shape.compress_ratios.size()) {
    return differs(file, shape.name, kPath, ratios,
                   fmt::format("at least {} numbers", shape.compress_ratios.size()));
  }
  for (size_t i = 0; i < shape.compress_ratios.size(); ++i) {
    const json& found = (*ratios)[i];
    if (found.is_number_integer() && found == shape.compress_ratios[i]) continue;
    return fail(ErrorCode::kUnsupported,
                fmt::format("{}: compress_ratios[{}] ({}): expected {}, found {}", file, i,
                            shape.name, shape.compress_ratios[i], found.dump()));
  }
  return {};
}

Result<json> read_json(const std::string& path) {
  DS4_TRY(const MappedFile file, MappedFile::open(path));
  const auto bytes = file.bytes();
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  bool too_deep = bytes.size() > kMaxConfigBytes;
  const auto watch = [&](int depth, json::parse_event_t, json&) {
    too_deep |= depth > kMaxDepth;
    return !too_deep;  // false drops the value, so a hostile tree is not kept
  };
  json root = too_deep ? json() : json::parse(text, text + bytes.size(), watch, false);
  if (too_deep || !root.is_object()) {
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("{}: expected a JSON object of at most 1 MiB and depth {}", path, kMaxDepth));
  }
  return root;
}

}  // namespace

Result<ModelConfig> config_from_hf(const std::string& folder) {
  const std::string path = folder + "/config.json";
  DS4_TRY(const json root, read_json(path));
  const ModelConfig& shape = nearest_shape(root);
  for (const FixedField& f : kFixed) {
    const json* found = at(root, f.path);
    if (found == nullptr || found->is_null() || *found == json::parse(f.expected)) continue;
    return differs(path, shape.name, f.path, found, f.expected);
  }
  for (const char* groups : {"/n_group", "/topk_group"}) {
    const auto found = number_at(root, groups);
    if (found && *found > 1) return differs(path, shape.name, groups, at(root, groups), "none");
  }
  for (const NumberField& f : kFields) {
    const auto found = number_at(root, f.path);
    if (found && same(*found, f.expected(shape))) continue;
    return differs(path, shape.name, f.path, at(root, f.path),
                   fmt::format("{:g}", f.expected(shape)));
  }
  DS4_TRY_VOID(check_ratios(path, root, shape));
  ModelConfig config = shape;
  const auto longest = number_at(root, "/max_position_embeddings");
  if (longest && *longest >= 1 && *longest < number(config.max_position)) {
    config.max_position = static_cast<int64_t>(*longest);
  }
  return config;
}

}  // namespace ds4
