#include "model/tensor_table.h"

#include <fmt/format.h>

#include <array>

namespace ds4 {
namespace {

// Prefixes names and forwards to the visitor; one per layer.
struct Scope {
  std::string prefix;
  const TensorVisitor& visit;

  void operator()(std::string_view name, Shape shape, TensorKind kind, ConstTensor& field) const {
    visit(TensorSpec{prefix + std::string(name), shape, kind}, field);
  }
};

void visit_hc(const ModelConfig& c, const Scope& scope, std::string_view name, bool head,
              HcWeights& hc) {
  const int64_t rows = head ? c.n_hc : c.hc_mix_rows();
  const auto full = [&](std::string_view part) { return fmt::format("{}_{}.weight", name, part); };
  scope(full("fn"), {rows, c.n_hc * c.hidden}, TensorKind::kDense, hc.fn);
  scope(full("base"), {rows}, TensorKind::kVector, hc.base);
  scope(full("scale"), {head ? 1 : 3}, TensorKind::kVector, hc.scale);
}

void visit_attention(const ModelConfig& c, const Scope& scope, AttentionWeights& attn) {
  const int64_t qkv = c.n_heads * c.head_dim;
  const int64_t low = c.o_groups * c.o_lora_rank;
  scope("attn_norm.weight", {c.hidden}, TensorKind::kVector, attn.norm);
  scope("attn_q_a.weight", {c.q_lora_rank, c.hidden}, TensorKind::kProjection, attn.q_a);
  scope("attn_q_a_norm.weight", {c.q_lora_rank}, TensorKind::kVector, attn.q_a_norm);
  scope("attn_q_b.weight", {qkv, c.q_lora_rank}, TensorKind::kProjection, attn.q_b);
  scope("attn_kv.weight", {c.head_dim, c.hidden}, TensorKind::kProjection, attn.kv);
  scope("attn_kv_a_norm.weight", {c.head_dim}, TensorKind::kVector, attn.kv_norm);
  scope("attn_sinks.weight", {c.n_heads}, TensorKind::kVector, attn.sinks);
  scope("attn_output_a.weight", {low, c.group_width()}, TensorKind::kProjection, attn.o_a);
  scope("attn_output_b.weight", {c.hidden, low}, TensorKind::kProjection, attn.o_b);
}

void visit_compressor(const ModelConfig& c, const Scope& scope, std::string_view name, int ratio,
                      int64_t width, int64_t norm_width, CompressorWeights& w) {
  const auto full = [&](std::string_view part) { return fmt::format("{}_{}.weight", name, part); };
  scope(full("kv"), {width, c.hidden}, TensorKind::kAttention, w.kv);
  scope(full("gate"), {width, c.hidden}, TensorKind::kAttention, w.gate);
  scope(full("ape"), {ratio, width}, TensorKind::kAttention, w.ape);
  scope(full("norm"), {norm_width}, TensorKind::kVector, w.norm);
}

void visit_indexer(const ModelConfig& c, const Scope& scope, IndexerWeights& indexer) {
  // Two names with a dot, four with an underscore: that is how the files have it.
  scope("indexer.attn_q_b.weight", {c.index_n_heads * c.index_head_dim, c.q_lora_rank},
        TensorKind::kAttention, indexer.q_b);
  scope("indexer.proj.weight", {c.index_n_heads, c.hidden}, TensorKind::kAttention, indexer.proj);
  visit_compressor(c, scope, "indexer_compressor", 4, c.index_compressor_width(), c.index_head_dim,
                   indexer.compressor);
}

void visit_moe(const ModelConfig& c, const Scope& scope, bool hashed, MoeWeights& moe) {
  const int64_t x = c.n_experts, f = c.expert_ffn, e = c.hidden;
  const int64_t shared = f * c.n_shared_experts;
  scope("ffn_norm.weight", {e}, TensorKind::kVector, moe.norm);
  scope("ffn_gate_inp.weight", {x, e}, TensorKind::kDense, moe.router);
  if (hashed) {
    scope("ffn_gate_tid2eid.weight", {c.vocab_size, c.n_experts_used}, TensorKind::kHashIds,
          moe.hash_ids);
  } else {
    scope("exp_probs_b.bias", {x}, TensorKind::kVector, moe.router_bias);
  }
  scope("ffn_gate_exps.weight", {x, f, e}, TensorKind::kRoutedGate, moe.gate);
  scope("ffn_up_exps.weight", {x, f, e}, TensorKind::kRoutedUp, moe.up);
  scope("ffn_down_exps.weight", {x, e, f}, TensorKind::kRoutedDown, moe.down);
  scope("ffn_gate_shexp.weight", {shared, e}, TensorKind::kShared, moe.shared_gate);
  scope("ffn_up_shexp.weight", {shared, e}, TensorKind::kShared, moe.shared_up);
  scope("ffn_down_shexp.weight", {e, shared}, TensorKind::kShared, moe.shared_down);
}

void visit_layer(const ModelConfig& c, const Scope& scope, bool hashed, LayerWeights& layer) {
  visit_hc(c, scope, "hc_attn", false, layer.attn_hc);
  visit_attention(c, scope, layer.attn);
  const int ratio = layer.compress_ratio;
  if (ratio != 0) {
    visit_compressor(c, scope, "attn_compressor", ratio, c.compressor_width_for(ratio), c.head_dim,
                     layer.compressor);
  }
  if (ratio == 4) visit_indexer(c, scope, layer.indexer);
  visit_hc(c, scope, "hc_ffn", false, layer.ffn_hc);
  visit_moe(c, scope, hashed, layer.moe);
}

constexpr std::array kVectorTypes{DType::kF32};
constexpr std::array kIdTypes{DType::kI32};
constexpr std::array kPlainTypes{DType::kF16, DType::kBF16, DType::kF32};
constexpr std::array kProjectionTypes{DType::kQ8_0, DType::kF16, DType::kBF16, DType::kF32};
constexpr std::array kRoutedTypes{DType::kIQ2_XXS, DType::kQ2_K, DType::kQ4_K, DType::kMXFP4,
                                  DType::kQ8_0,    DType::kF32,  DType::kF16,  DType::kBF16};

}  // namespace

std::span<const DType> accepted_types(TensorKind kind) {
  switch (kind) {
    case TensorKind::kVector:
      return kVectorTypes;
    case TensorKind::kHashIds:
      return kIdTypes;
    case TensorKind::kEmbedding:
    case TensorKind::kAttention:
    case TensorKind::kDense:
      return kPlainTypes;
    case TensorKind::kOutput:
    case TensorKind::kProjection:
    case TensorKind::kShared:
      return kProjectionTypes;
    case TensorKind::kRoutedGate:
    case TensorKind::kRoutedUp:
    case TensorKind::kRoutedDown:
      return kRoutedTypes;
  }
  return {};
}

void visit_mtp(const ModelConfig& config, MtpWeights& mtp, const TensorVisitor& visit) {
  const Scope scope{"mtp.0.", visit};
  const int64_t e = config.hidden;
  scope("enorm.weight", {e}, TensorKind::kVector, mtp.enorm);
  scope("hnorm.weight", {e}, TensorKind::kVector, mtp.hnorm);
  scope("e_proj.weight", {e, e}, TensorKind::kProjection, mtp.e_proj);
  scope("h_proj.weight", {e, e}, TensorKind::kProjection, mtp.h_proj);
  mtp.layer.compress_ratio = 0;
  visit_layer(config, scope, /*hashed=*/false, mtp.layer);
  visit_hc(config, scope, "hc_head", true, mtp.hc_head);
  scope("norm.weight", {e}, TensorKind::kVector, mtp.norm);
}

void visit_weights(const ModelConfig& config, Weights& weights, const TensorVisitor& visit) {
  const Scope top{"", visit};
  top("token_embd.weight", {config.vocab_size, config.hidden}, TensorKind::kEmbedding,
      weights.token_embd);
  weights.layers.resize(static_cast<size_t>(config.n_layers));
  for (int64_t i = 0; i < config.n_layers; ++i) {
    LayerWeights& layer = weights.layers[static_cast<size_t>(i)];
    layer.compress_ratio = config.compress_ratio(i);
    visit_layer(config, Scope{fmt::format("blk.{}.", i), visit}, config.is_hash_layer(i), layer);
  }
  visit_hc(config, top, "output_hc", true, weights.output_hc);
  top("output_norm.weight", {config.hidden}, TensorKind::kVector, weights.output_norm);
  top("output.weight", {config.vocab_size, config.hidden}, TensorKind::kOutput, weights.output);
  if (weights.mtp) visit_mtp(config, *weights.mtp, visit);
}

}  // namespace ds4
