#include "quantizer/metadata.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "model/config_reader.h"

namespace ds4 {
namespace {

std::string general_name(const ModelConfig& c) {
  if (!c.is_slice()) return "DeepSeek V4 " + c.name;
  return fmt::format("DeepSeek V4 {}, first {} of {} layers", c.name, c.n_layers,
                     c.slice_of_layers);
}

void add_general(gguf::Layout& layout, const ModelConfig& c, const MetadataOptions& options) {
  layout.add_string("general.architecture", "deepseek4");
  layout.add_string("general.type", "model");
  layout.add_string("general.name", general_name(c) + options.name_note);
  layout.add_string("general.license", "mit");
  layout.add_u32("general.quantization_version", 2);
  layout.add_string(kEffortProfileKey, options.effort_profile);
  if (c.is_slice()) layout.add_u32(kSliceOfLayersKey, static_cast<uint32_t>(c.slice_of_layers));
}

void add_shape(gguf::Layout& layout, const ModelConfig& c) {
  const auto u32 = [&](const char* key, int64_t value) {
    layout.add_u32(std::string("deepseek4.") + key, static_cast<uint32_t>(value));
  };
  u32("block_count", c.n_layers);
  u32("context_length", c.max_position);
  u32("embedding_length", c.hidden);
  u32("vocab_size", c.vocab_size);
  u32("attention.head_count", c.n_heads);
  u32("attention.head_count_kv", 1);
  u32("attention.key_length", c.head_dim);
  u32("attention.value_length", c.head_dim);
  u32("rope.dimension_count", c.rope_head_dim);
  u32("attention.q_lora_rank", c.q_lora_rank);
  u32("attention.output_lora_rank", c.o_lora_rank);
  u32("attention.output_group_count", c.o_groups);
  u32("attention.sliding_window", c.window);
  u32("attention.indexer.head_count", c.index_n_heads);
  u32("attention.indexer.key_length", c.index_head_dim);
  u32("attention.indexer.top_k", c.index_topk);
  u32("expert_count", c.n_experts);
  u32("expert_used_count", c.n_experts_used);
  u32("expert_shared_count", c.n_shared_experts);
  u32("expert_feed_forward_length", c.expert_ffn);
  u32("expert_gating_func", 4);
  u32("hash_layer_count", c.n_hash_layers);
  u32("hyper_connection.count", c.n_hc);
  u32("hyper_connection.sinkhorn_iterations", c.hc_sinkhorn_iters);
  u32("rope.scaling.original_context_length", c.yarn_original_ctx);
}

void add_constants(gguf::Layout& layout, const ModelConfig& c, int n_draft_blocks) {
  const auto f32 = [&](const char* key, float value) {
    layout.add_f32(std::string("deepseek4.") + key, value);
  };
  f32("attention.layer_norm_rms_epsilon", c.rms_eps);
  f32("attention.compress_rope_freq_base", c.compress_rope_base);
  f32("expert_weights_scale", c.routed_scale);
  f32("hyper_connection.epsilon", c.hc_eps);
  f32("rope.freq_base", c.rope_base);
  f32("rope.scaling.factor", c.yarn_factor);
  f32("rope.scaling.yarn_beta_fast", c.yarn_beta_fast);
  f32("rope.scaling.yarn_beta_slow", c.yarn_beta_slow);
  layout.add_string("deepseek4.rope.scaling.type", "yarn");
  layout.add_bool("deepseek4.expert_weights_norm", true);
  std::vector<int32_t> ratios(c.compress_ratios.begin(), c.compress_ratios.end());
  ratios.insert(ratios.end(), static_cast<size_t>(n_draft_blocks), 0);
  layout.add_i32s("deepseek4.attention.compress_ratios", ratios);
  const std::vector<float> clamps(static_cast<size_t>(c.n_layers), c.swiglu_limit);
  layout.add_f32s("deepseek4.swiglu_clamp_exp", clamps);
  layout.add_f32s("deepseek4.swiglu_clamp_shexp", clamps);
}

void add_vocabulary(gguf::Layout& layout, const VocabData& vocab) {
  layout.add_string("tokenizer.ggml.model", "gpt2");
  layout.add_string("tokenizer.ggml.pre", "joyai-llm");
  layout.add_strings("tokenizer.ggml.tokens", vocab.tokens);
  layout.add_strings("tokenizer.ggml.merges", vocab.merges);
  layout.add_i32s("tokenizer.ggml.token_type", vocab.token_types);
  layout.add_u32("tokenizer.ggml.bos_token_id", 0);
  layout.add_u32("tokenizer.ggml.eos_token_id", 1);
  layout.add_u32("tokenizer.ggml.padding_token_id", 2);
  layout.add_bool("tokenizer.ggml.add_bos_token", false);
  layout.add_bool("tokenizer.ggml.add_eos_token", false);
}

}  // namespace

void add_metadata(gguf::Layout& layout, const ModelConfig& config, const VocabData& vocab,
                  const MetadataOptions& options) {
  add_general(layout, config, options);
  add_shape(layout, config);
  add_constants(layout, config, options.n_draft_blocks);
  add_vocabulary(layout, vocab);
}

}  // namespace ds4
