#include "model/config_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "tokenizer/special_tokens.h"

namespace ds4 {
namespace {

using gguf::File;
using gguf::Value;

// The integers that tell the shapes apart, in the order a reader would compare them.
struct IntKey {
  const char* key;
  int64_t (*expected)(const ModelConfig&);
};
constexpr std::array<IntKey, 22> kShapeKeys{{
    {"deepseek4.block_count", [](const ModelConfig& c) { return c.n_layers; }},
    {"deepseek4.embedding_length", [](const ModelConfig& c) { return c.hidden; }},
    {"deepseek4.vocab_size", [](const ModelConfig& c) { return c.vocab_size; }},
    {"deepseek4.attention.head_count", [](const ModelConfig& c) { return c.n_heads; }},
    {"deepseek4.attention.head_count_kv", [](const ModelConfig&) { return int64_t{1}; }},
    {"deepseek4.attention.key_length", [](const ModelConfig& c) { return c.head_dim; }},
    {"deepseek4.attention.value_length", [](const ModelConfig& c) { return c.head_dim; }},
    {"deepseek4.rope.dimension_count", [](const ModelConfig& c) { return c.rope_head_dim; }},
    {"deepseek4.attention.q_lora_rank", [](const ModelConfig& c) { return c.q_lora_rank; }},
    {"deepseek4.attention.output_lora_rank", [](const ModelConfig& c) { return c.o_lora_rank; }},
    {"deepseek4.attention.output_group_count", [](const ModelConfig& c) { return c.o_groups; }},
    {"deepseek4.attention.sliding_window", [](const ModelConfig& c) { return c.window; }},
    {"deepseek4.attention.indexer.head_count",
     [](const ModelConfig& c) { return c.index_n_heads; }},
    {"deepseek4.attention.indexer.key_length",
     [](const ModelConfig& c) { return c.index_head_dim; }},
    {"deepseek4.attention.indexer.top_k", [](const ModelConfig& c) { return c.index_topk; }},
    {"deepseek4.expert_count", [](const ModelConfig& c) { return c.n_experts; }},
    {"deepseek4.expert_used_count", [](const ModelConfig& c) { return c.n_experts_used; }},
    {"deepseek4.expert_shared_count", [](const ModelConfig& c) { return c.n_shared_experts; }},
    {"deepseek4.expert_feed_forward_length", [](const ModelConfig& c) { return c.expert_ffn; }},
    {"deepseek4.hash_layer_count", [](const ModelConfig& c) { return c.n_hash_layers; }},
    {"deepseek4.hyper_connection.count", [](const ModelConfig& c) { return c.n_hc; }},
    {"deepseek4.hyper_connection.sinkhorn_iterations",
     [](const ModelConfig& c) { return c.hc_sinkhorn_iters; }},
}};

// Constants that must have the model's value; optional ones default to it when absent.
struct NumberKey {
  const char* key;
  bool required;
  double (*expected)(const ModelConfig&);
};
constexpr std::array<NumberKey, 12> kConstantKeys{{
    {"deepseek4.rope.freq_base", true, [](const ModelConfig& c) -> double { return c.rope_base; }},
    {"deepseek4.attention.compress_rope_freq_base", true,
     [](const ModelConfig& c) -> double { return c.compress_rope_base; }},
    {"deepseek4.attention.layer_norm_rms_epsilon", true,
     [](const ModelConfig& c) -> double { return c.rms_eps; }},
    {"deepseek4.hyper_connection.epsilon", true,
     [](const ModelConfig& c) -> double { return c.hc_eps; }},
    {"deepseek4.expert_weights_scale", true,
     [](const ModelConfig& c) -> double { return c.routed_scale; }},
    {"deepseek4.rope.scaling.factor", false,
     [](const ModelConfig& c) -> double { return c.yarn_factor; }},
    {"deepseek4.rope.scaling.original_context_length", false,
     [](const ModelConfig& c) { return static_cast<double>(c.yarn_original_ctx); }},
    {"deepseek4.rope.scaling.yarn_beta_fast", false,
     [](const ModelConfig& c) -> double { return c.yarn_beta_fast; }},
    {"deepseek4.rope.scaling.yarn_beta_slow", false,
     [](const ModelConfig& c) -> double { return c.yarn_beta_slow; }},
    // 4 is the square root of softplus; no expert groups.
    {"deepseek4.expert_gating_func", false, [](const ModelConfig&) { return 4.0; }},
    {"deepseek4.expert_group_count", false, [](const ModelConfig&) { return 0.0; }},
    {"deepseek4.expert_group_used_count", false, [](const ModelConfig&) { return 0.0; }},
}};

constexpr const char* kRatios = "deepseek4.attention.compress_ratios";
constexpr const char* kClampRouted = "deepseek4.swiglu_clamp_exp";
constexpr const char* kClampShared = "deepseek4.swiglu_clamp_shexp";
constexpr const char* kWeightsNorm = "deepseek4.expert_weights_norm";
constexpr const char* kYarnType = "deepseek4.rope.scaling.type";
constexpr const char* kContext = "deepseek4.context_length";
constexpr const char* kTokenizerModel = "tokenizer.ggml.model";
constexpr const char* kTokenizerPre = "tokenizer.ggml.pre";
constexpr const char* kTokens = "tokenizer.ggml.tokens";
constexpr const char* kMerges = "tokenizer.ggml.merges";
constexpr const char* kTokenTypes = "tokenizer.ggml.token_type";

// Equal up to the rounding of an f32. Relative, so that an epsilon of 0 is not taken for 1e-6.
bool same(double found, double expected) {
  return std::abs(found - expected) <= 1e-6 * std::abs(expected);
}

tl::unexpected<Error> failure(const File& file, ErrorCode code, std::string_view message) {
  return fail(code, fmt::format("{}: {}", file.path(), message));
}

Result<void> check_architecture(const File& file) {
  const Value* value = file.find("general.architecture");
  const auto name = value == nullptr ? std::nullopt : value->as_string();
  if (!name) {
    return failure(file, ErrorCode::kUnsupported,
                   "general.architecture is missing, expected deepseek4");
  }
  if (*name == "deepseek4") return {};
  if (*name == "deepseek4_mtp_support") {
    return failure(file, ErrorCode::kUnsupported,
                   "this is an MTP draft block, not a whole model: give the main model with -m and "
                   "this file with --mtp");
  }
  return failure(file, ErrorCode::kUnsupported,
                 fmt::format("general.architecture: expected deepseek4, found {}; this engine runs "
                             "DeepSeek-V4 Flash, Pro and Nano only",
                             *name));
}

// Every required key that is absent or of another kind, at once: a file from another exporter
// should need one look, not one per key.
class KeyCheck {
 public:
  explicit KeyCheck(const File& file) : file_(file) {}

  // `convert` is one of Value's getters.
  template <typename T>
  void require(const char* key, std::optional<T> (Value::*convert)() const, const char* kind) {
    const Value* value = file_.find(key);
    if (value == nullptr) {
      missing_.push_back(key);
    } else if (!(value->*convert)()) {
      mistyped_.push_back(fmt::format("{} is {}, expected {}", key, value->type_name(), kind));
    }
  }
  template <typename T>
  void allow(const char* key, std::optional<T> (Value::*convert)() const, const char* kind) {
    if (file_.find(key) != nullptr) require(key, convert, kind);
  }

  Result<void> finish() const {
    if (missing_.empty() && mistyped_.empty()) return {};
    std::string text;
    if (!missing_.empty()) text = fmt::format("missing keys: {}", fmt::join(missing_, ", "));
    if (!mistyped_.empty()) {
      text +=
          fmt::format("{}mistyped keys: {}", text.empty() ? "" : "; ", fmt::join(mistyped_, ", "));
    }
    return failure(file_, ErrorCode::kCorrupt, text);
  }

 private:
  const File& file_;
  std::vector<std::string> missing_;
  std::vector<std::string> mistyped_;
};

Result<void> check_keys(const File& file) {
  KeyCheck check(file);
  for (const IntKey& k : kShapeKeys) check.require(k.key, &Value::as_int, "an integer");
  for (const NumberKey& k : kConstantKeys) {
    if (k.required)
      check.require(k.key, &Value::as_float, "a number");
    else
      check.allow(k.key, &Value::as_float, "a number");
  }
  check.require(kRatios, &Value::as_ints, "an array of integers");
  check.require(kClampRouted, &Value::as_floats, "an array of numbers");
  check.allow(kClampShared, &Value::as_floats, "an array of numbers");
  check.require(kWeightsNorm, &Value::as_bool, "a bool");
  check.allow(kSliceOfLayersKey, &Value::as_int, "an integer");
  check.allow(kYarnType, &Value::as_string, "a string");
  check.allow(kContext, &Value::as_int, "an integer");
  check.require(kTokenizerModel, &Value::as_string, "a string");
  check.allow(kTokenizerPre, &Value::as_string, "a string");
  check.require(kTokens, &Value::as_strings, "an array of strings");
  check.require(kMerges, &Value::as_strings, "an array of strings");
  check.allow(kTokenTypes, &Value::as_ints, "an array of integers");
  return check.finish();
}

int64_t int_at(const File& file, const char* key) { return *file.find(key)->as_int(); }

// Other exporters append the draft block as one more layer; say so, because the layer count then
// looks wrong for no visible reason.
std::string nextn_hint(const File& file, int64_t n_layers) {
  for (const char* name : {"eh_proj", "e_proj"}) {
    if (file.find_tensor(fmt::format("blk.{}.nextn.{}.weight", n_layers - 1, name)) == nullptr) {
      continue;
    }
    return fmt::format(
        "; layer {} is an MTP block in another exporter's layout, which is not "
        "supported",
        n_layers - 1);
  }
  return "";
}

// What the file may be: the three models; for a file that is marked as a slice, the slices of that
// many layers of those that have the marked number.
Result<std::vector<ModelConfig>> possible_shapes(const File& file) {
  std::vector<ModelConfig> shapes{flash_config(), pro_config(), nano_config()};
  if (file.find(kSliceOfLayersKey) == nullptr) return shapes;
  const int64_t of_layers = int_at(file, kSliceOfLayersKey);
  const int64_t n_layers = int_at(file, "deepseek4.block_count");
  std::erase_if(shapes, [&](const ModelConfig& s) { return s.n_layers != of_layers; });
  if (shapes.empty() || n_layers < 1 || n_layers >= of_layers) {
    return failure(
        file, ErrorCode::kCorrupt,
        fmt::format("{}: expected the layers of Flash, Pro or Nano (43, 61, 8), more than "
                    "the file's own {}; found {}",
                    kSliceOfLayersKey, n_layers, of_layers));
  }
  for (ModelConfig& shape : shapes) shape = slice_of(shape, n_layers);
  return shapes;
}

Result<ModelConfig> select_shape(const File& file) {
  DS4_TRY(const std::vector<ModelConfig> shapes, possible_shapes(file));
  const ModelConfig* nearest = nullptr;
  size_t most_equal = 0;
  for (const ModelConfig& shape : shapes) {
    size_t n_equal = 0;
    for (const IntKey& k : kShapeKeys) n_equal += int_at(file, k.key) == k.expected(shape) ? 1 : 0;
    if (n_equal == kShapeKeys.size()) return shape;
    if (nearest == nullptr || n_equal > most_equal) {
      nearest = &shape;
      most_equal = n_equal;
    }
  }
  const auto value = [&](const char* key) { return int_at(file, key); };
  std::string text = fmt::format(
      "not one of the supported models Flash, Pro and Nano: layers {}, hidden {}, heads {}, "
      "q_lora_rank {}, o_groups {}, experts {}, expert_ffn {}, top-k {}",
      value("deepseek4.block_count"), value("deepseek4.embedding_length"),
      value("deepseek4.attention.head_count"), value("deepseek4.attention.q_lora_rank"),
      value("deepseek4.attention.output_group_count"), value("deepseek4.expert_count"),
      value("deepseek4.expert_feed_forward_length"), value("deepseek4.attention.indexer.top_k"));
  for (const IntKey& k : kShapeKeys) {
    if (value(k.key) == k.expected(*nearest)) continue;
    text += fmt::format("; nearest is {}, where {} is {}, found {}", nearest->name, k.key,
                        k.expected(*nearest), value(k.key));
    break;
  }
  return failure(file, ErrorCode::kUnsupported,
                 text + nextn_hint(file, value("deepseek4.block_count")));
}

Result<void> check_slice_allowed(const File& file, const ModelConfig& c,
                                 const ModelOptions& options) {
  if (!c.is_slice() || options.allow_slice) return {};
  return failure(
      file, ErrorCode::kUnsupported,
      fmt::format("this is a slice, the first {} of the {} layers of {}: its speed means "
                  "something, its answers do not; --allow-slice loads it",
                  c.n_layers, c.slice_of_layers, c.name));
}

// Collects constants that differ; the message names all of them.
class ConstantCheck {
 public:
  ConstantCheck(const File& file, const ModelConfig& config) : file_(file), config_(config) {}

  void numbers() {
    for (const NumberKey& k : kConstantKeys) {
      const Value* value = file_.find(k.key);
      if (value == nullptr) continue;
      const double found = *value->as_float();
      const double expected = k.expected(config_);
      if (!same(found, expected)) differs(k.key, found, expected);
    }
    if (!*file_.find(kWeightsNorm)->as_bool()) differs(kWeightsNorm, "false", "true");
    const Value* yarn = file_.find(kYarnType);
    if (yarn != nullptr && *yarn->as_string() != "yarn") {
      differs(kYarnType, *yarn->as_string(), "yarn");
    }
  }

  void ratios() {
    const auto found = *file_.find(kRatios)->as_ints();
    if (too_short(kRatios, found.size())) return;
    for (size_t i = 0; i < found.size(); ++i) {
      const bool in_model = i < config_.compress_ratios.size();
      // Entries after the last layer belong to draft blocks and only have to be ratios.
      if (in_model ? found[i] == config_.compress_ratios[i] : found[i] >= 0) continue;
      differs(fmt::format("{}[{}]", kRatios, i), found[i],
              in_model ? config_.compress_ratios[i] : 0);
    }
  }

  void clamps(const char* key) {
    const Value* value = file_.find(key);
    if (value == nullptr) return;
    const auto found = *value->as_floats();
    if (too_short(key, found.size())) return;
    for (size_t i = 0; i < found.size(); ++i) {
      if (!same(found[i], config_.swiglu_limit)) {
        return differs(fmt::format("{}[{}]", key, i), found[i], config_.swiglu_limit);
      }
    }
  }

  Result<void> finish() const {
    if (differences_.empty()) return {};
    return failure(file_, ErrorCode::kUnsupported,
                   fmt::format("has the shape of {} but other constants: {}", config_.name,
                               fmt::join(differences_, "; ")));
  }

 private:
  template <typename A, typename B>
  void differs(std::string_view key, const A& found, const B& expected) {
    differences_.push_back(fmt::format("{}: expected {}, found {}", key, expected, found));
  }
  bool too_short(const char* key, size_t n) {
    if (n >= static_cast<size_t>(config_.n_layers)) return false;
    differs(key, fmt::format("{} entries", n), fmt::format("{} entries", config_.n_layers));
    return true;
  }

  const File& file_;
  const ModelConfig& config_;
  std::vector<std::string> differences_;
};

// For a file without the optional array: in this family ids 0..2 are control tokens, then come 256
// bytes, one token per merge, and everything after that was added.
std::vector<int32_t> default_token_types(const VocabData& vocab) {
  std::vector<int32_t> types(vocab.tokens.size(), kTokenTypeNormal);
  const size_t first_added = 3 + 256 + vocab.merges.size();
  for (size_t id = 0; id < types.size(); ++id) {
    if (id < 3 || id >= first_added) types[id] = kTokenTypeControl;
  }
  return types;
}

Result<void> check_special_tokens(const File& file, const VocabData& vocab) {
  const std::unordered_set<std::string_view> known(vocab.tokens.begin(), vocab.tokens.end());
  std::vector<std::string_view> absent;
  for (const std::string_view text :
       {spelling::kBos, spelling::kEos, spelling::kUser, spelling::kAssistant, spelling::kThinkOpen,
        spelling::kThinkClose, spelling::kDsml}) {
    if (!known.contains(text)) absent.push_back(text);
  }
  if (absent.empty()) return {};
  return failure(file, ErrorCode::kUnsupported,
                 fmt::format("{} lacks the control tokens {}", kTokens, fmt::join(absent, " ")));
}

}  // namespace

Result<ModelConfig> config_from_gguf(const File& file, const ModelOptions& options) {
  DS4_TRY_VOID(check_architecture(file));
  DS4_TRY_VOID(check_keys(file));
  DS4_TRY(ModelConfig config, select_shape(file));
  DS4_TRY_VOID(check_slice_allowed(file, config, options));
  ConstantCheck check(file, config);
  check.numbers();
  check.ratios();
  check.clamps(kClampRouted);
  check.clamps(kClampShared);
  DS4_TRY_VOID(check.finish());
  if (const Value* context = file.find(kContext)) {
    const int64_t n = *context->as_int();
    if (n > 0 && n < config.max_position) config.max_position = n;
  }
  return config;
}

Result<VocabData> vocab_from_gguf(const File& file, const ModelConfig& config) {
  VocabData vocab;
  const auto tokens = *file.find(kTokens)->as_strings();
  if (static_cast<int64_t>(tokens.size()) != config.vocab_size) {
    return failure(file, ErrorCode::kCorrupt,
                   fmt::format("{}: expected {} entries (deepseek4.vocab_size), found {}", kTokens,
                               config.vocab_size, tokens.size()));
  }
  vocab.tokens.assign(tokens.begin(), tokens.end());
  const auto merges = *file.find(kMerges)->as_strings();
  vocab.merges.assign(merges.begin(), merges.end());
  if (const Value* types = file.find(kTokenTypes)) {
    const auto found = *types->as_ints();
    for (const int64_t type : found) vocab.token_types.push_back(static_cast<int32_t>(type));
  }
  if (vocab.token_types.empty()) vocab.token_types = default_token_types(vocab);
  const Value* pre = file.find(kTokenizerPre);
  const auto checked =
      check_gguf_tokenizer(*file.find(kTokenizerModel)->as_string(),
                           pre == nullptr ? "" : *pre->as_string(), fingerprints(vocab));
  if (!checked) return fail_within(file.path(), checked.error());
  DS4_TRY_VOID(check_special_tokens(file, vocab));
  return vocab;
}

}  // namespace ds4
