#pragma once
// The hyper-parameters of a DeepSeek-V4 model, in the paper's and the official config's words, and
// the three shapes this engine runs: Flash, Pro and our own Nano.
//
// A model file must match one of the three entirely (model/config_reader.h). Tests may fill a
// ModelConfig with any small or odd shape; no file loader accepts one. A slice, the first layers of
// one of the three with all else unchanged, is accepted when it is asked for.
#include <cstdint>
#include <string>
#include <vector>

namespace ds4 {

struct ModelConfig {
  std::string name;  // "Flash", "Pro", "Nano"

  int64_t n_layers = 0;
  int64_t slice_of_layers =
      0;  // of a slice: the layers of the model it is the beginning of; else 0
  int64_t hidden = 0;
  int64_t vocab_size = 0;
  int64_t max_position = 1048576;  // longest context in tokens; the file may lower it

  // Attention: one key-value head; keys and values are the same head_dim row, whose last
  // rope_head_dim values carry the position.
  int64_t n_heads = 0;
  int64_t head_dim = 512;
  int64_t rope_head_dim = 64;
  int64_t q_lora_rank = 0;
  int64_t o_groups = 0;
  int64_t o_lora_rank = 0;
  int64_t window = 128;  // sliding window in tokens, the token itself included

  // 0: sliding window only; 4: compressed sparse attention with an indexer (CSA); 128: heavily
  // compressed attention (HCA). n_layers entries.
  std::vector<int> compress_ratios;

  // Lightning indexer of the ratio-4 layers.
  int64_t index_n_heads = 0;
  int64_t index_head_dim = 128;
  int64_t index_topk = 0;

  // Mixture of experts.
  int64_t n_experts = 0;
  int64_t n_experts_used = 0;
  int64_t n_shared_experts = 1;
  int64_t expert_ffn = 0;     // intermediate width of one expert, routed or shared
  int64_t n_hash_layers = 3;  // the first layers pick experts by token id
  float routed_scale = 1.5f;
  float swiglu_limit = 10.0f;

  // Hyper-connections.
  int64_t n_hc = 4;
  int64_t hc_sinkhorn_iters = 20;
  float hc_eps = 1e-6f;

  float rms_eps = 1e-6f;

  // RoPE: rope_base where nothing is compressed, compress_rope_base with YaRN elsewhere.
  float rope_base = 10000.0f;
  float compress_rope_base = 160000.0f;
  float yarn_factor = 16.0f;
  int64_t yarn_original_ctx = 65536;
  float yarn_beta_fast = 32.0f;
  float yarn_beta_slow = 1.0f;

  bool is_slice() const { return slice_of_layers != 0; }

  int compress_ratio(int64_t layer) const { return compress_ratios[static_cast<size_t>(layer)]; }
  bool has_compressor(int64_t layer) const { return compress_ratio(layer) != 0; }
  bool has_indexer(int64_t layer) const { return compress_ratio(layer) == 4; }
  bool is_hash_layer(int64_t layer) const { return layer < n_hash_layers; }

  // Width of a compressor's projections: ratio 4 overlaps two windows and has two columns per
  // value.
  int64_t compressor_width_for(int ratio) const { return ratio == 4 ? 2 * head_dim : head_dim; }
  int64_t compressor_width(int64_t layer) const {
    return compressor_width_for(compress_ratio(layer));
  }
  int64_t index_compressor_width() const { return 2 * index_head_dim; }

  // Rows of a hyper-connection mixing matrix: pre and post weights per stream and their square.
  int64_t hc_mix_rows() const { return 2 * n_hc + n_hc * n_hc; }
  // Heads and input width of one group of the grouped output projection.
  int64_t heads_per_group() const { return n_heads / o_groups; }
  int64_t group_width() const { return heads_per_group() * head_dim; }
};

// The three known shapes; the references stay valid for the life of the program.
const ModelConfig& flash_config();
const ModelConfig& pro_config();
const ModelConfig& nano_config();

// The first `n_layers` layers of `whole`, with its embedding and output head: for tests and
// measurements on machines that the model does not fit. 1 <= n_layers < whole.n_layers, and `whole`
// is no slice itself (checked).
ModelConfig slice_of(const ModelConfig& whole, int64_t n_layers);

}  // namespace ds4
