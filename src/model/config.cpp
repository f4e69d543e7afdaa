#include "model/config.h"

#include <algorithm>

#include "base/check.h"

namespace ds4 {
namespace {

// Even layers from `first` on are CSA, odd ones HCA; the layers before take `head`.
std::vector<int> alternating_ratios(int64_t n_layers, int head) {
  std::vector<int> ratios;
  for (int64_t layer = 0; layer < n_layers; ++layer) {
    ratios.push_back(layer < 2 ? head : layer % 2 == 0 ? 4 : 128);
  }
  return ratios;
}

// Values are those of the published config.json files (docs/formats/gguf.md lists them).
ModelConfig make_flash() {
  ModelConfig c;
  c.name = "Flash";
  c.n_layers = 43;
  c.hidden = 4096;
  c.vocab_size = 129280;
  c.n_heads = 64;
  c.q_lora_rank = 1024;
  c.o_groups = 8;
  c.o_lora_rank = 1024;
  c.compress_ratios = alternating_ratios(c.n_layers, 0);
  c.index_n_heads = 64;
  c.index_topk = 512;
  c.n_experts = 256;
  c.n_experts_used = 6;
  c.expert_ffn = 2048;
  return c;
}

ModelConfig make_pro() {
  ModelConfig c = make_flash();
  c.name = "Pro";
  c.n_layers = 61;
  c.hidden = 7168;
  c.n_heads = 128;
  c.q_lora_rank = 1536;
  c.o_groups = 16;
  c.compress_ratios = alternating_ratios(c.n_layers, 128);
  c.index_topk = 1024;
  c.n_experts = 384;
  c.expert_ffn = 3072;
  c.routed_scale = 2.5f;
  return c;
}

ModelConfig make_nano() {
  ModelConfig c;
  c.name = "Nano";
  c.n_layers = 8;
  c.hidden = 256;
  c.vocab_size = 4096;
  c.n_heads = 4;
  c.q_lora_rank = 256;
  c.o_groups = 2;
  c.o_lora_rank = 256;
  c.compress_ratios = alternating_ratios(c.n_layers, 0);
  c.index_n_heads = 4;
  c.index_topk = 128;
  c.n_experts = 16;
  c.n_experts_used = 4;
  c.expert_ffn = 256;
  return c;
}

}  // namespace

const ModelConfig& flash_config() {
  static const ModelConfig config = make_flash();
  return config;
}

const ModelConfig& pro_config() {
  static const ModelConfig config = make_pro();
  return config;
}

const ModelConfig& nano_config() {
  static const ModelConfig config = make_nano();
  return config;
}

ModelConfig slice_of(const ModelConfig& whole, int64_t n_layers) {
  DS4_CHECK(!whole.is_slice() && n_layers >= 1 && n_layers < whole.n_layers);
  ModelConfig slice = whole;
  slice.n_layers = n_layers;
  slice.slice_of_layers = whole.n_layers;
  slice.compress_ratios.resize(static_cast<size_t>(n_layers));
  slice.n_hash_layers = std::min(whole.n_hash_layers, n_layers);
  return slice;
}

}  // namespace ds4
