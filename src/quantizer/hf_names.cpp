#include "quantizer/hf_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"

namespace ds4 {
namespace {

struct NamePair {
  std::string_view gguf;
  std::string_view hf;
};

// Without layer prefix.
constexpr std::array kNames{
    NamePair{"token_embd.weight", "embed.weight"},
    NamePair{"output_norm.weight", "norm.weight"},
    NamePair{"output.weight", "head.weight"},
    NamePair{"output_hc_fn.weight", "hc_head_fn"},
    NamePair{"output_hc_base.weight", "hc_head_base"},
    NamePair{"output_hc_scale.weight", "hc_head_scale"},
    NamePair{"attn_norm.weight", "attn_norm.weight"},
    NamePair{"attn_q_a.weight", "attn.wq_a.weight"},
    NamePair{"attn_q_a_norm.weight", "attn.q_norm.weight"},
    NamePair{"attn_q_b.weight", "attn.wq_b.weight"},
    NamePair{"attn_kv.weight", "attn.wkv.weight"},
    NamePair{"attn_kv_a_norm.weight", "attn.kv_norm.weight"},
    NamePair{"attn_sinks.weight", "attn.attn_sink"},
    NamePair{"attn_output_a.weight", "attn.wo_a.weight"},
    NamePair{"attn_output_b.weight", "attn.wo_b.weight"},
    NamePair{"attn_compressor_kv.weight", "attn.compressor.wkv.weight"},
    NamePair{"attn_compressor_gate.weight", "attn.compressor.wgate.weight"},
    NamePair{"attn_compressor_ape.weight", "attn.compressor.ape"},
    NamePair{"attn_compressor_norm.weight", "attn.compressor.norm.weight"},
    NamePair{"indexer.attn_q_b.weight", "attn.indexer.wq_b.weight"},
    NamePair{"indexer.proj.weight", "attn.indexer.weights_proj.weight"},
    NamePair{"indexer_compressor_kv.weight", "attn.indexer.compressor.wkv.weight"},
    NamePair{"indexer_compressor_gate.weight", "attn.indexer.compressor.wgate.weight"},
    NamePair{"indexer_compressor_ape.weight", "attn.indexer.compressor.ape"},
    NamePair{"indexer_compressor_norm.weight", "attn.indexer.compressor.norm.weight"},
    NamePair{"hc_attn_fn.weight", "hc_attn_fn"},
    NamePair{"hc_attn_base.weight", "hc_attn_base"},
    NamePair{"hc_attn_scale.weight", "hc_attn_scale"},
    NamePair{"hc_ffn_fn.weight", "hc_ffn_fn"},
    NamePair{"hc_ffn_base.weight", "hc_ffn_base"},
    NamePair{"hc_ffn_scale.weight", "hc_ffn_scale"},
    NamePair{"ffn_norm.weight", "ffn_norm.weight"},
    NamePair{"ffn_gate_inp.weight", "ffn.gate.weight"},
    NamePair{"exp_probs_b.bias", "ffn.gate.bias"},
    NamePair{"ffn_gate_tid2eid.weight", "ffn.gate.tid2eid"},
    NamePair{"ffn_gate_exps.weight", "ffn.experts.{}.w1.weight"},
    NamePair{"ffn_up_exps.weight", "ffn.experts.{}.w3.weight"},
    NamePair{"ffn_down_exps.weight", "ffn.experts.{}.w2.weight"},
    NamePair{"ffn_gate_shexp.weight", "ffn.shared_experts.w1.weight"},
    NamePair{"ffn_up_shexp.weight", "ffn.shared_experts.w3.weight"},
    NamePair{"ffn_down_shexp.weight", "ffn.shared_experts.w2.weight"},
    // Only in the MTP block.
    NamePair{"e_proj.weight", "e_proj.weight"},
    NamePair{"h_proj.weight", "h_proj.weight"},
    NamePair{"enorm.weight", "enorm.weight"},
    NamePair{"hnorm.weight", "hnorm.weight"},
    NamePair{"norm.weight", "norm.weight"},
    NamePair{"hc_head_fn.weight", "hc_head_fn"},
    NamePair{"hc_head_base.weight", "hc_head_base"},
    NamePair{"hc_head_scale.weight", "hc_head_scale"},
};

}  // namespace

std::string hf_name(std::string_view gguf_name) {
  std::string prefix;
  std::string_view rest = gguf_name;
  if (rest.starts_with("blk.")) {
    const size_t dot = rest.find('.', 4);
    prefix = fmt::format("layers.{}.", rest.substr(4, dot - 4));
    rest.remove_prefix(dot + 1);
  } else if (rest.starts_with("mtp.0.")) {
    prefix = "mtp.0.";
    rest.remove_prefix(prefix.size());
  }
  const auto* found = std::find_if(kNames.begin(), kNames.end(),
                                   [&](const NamePair& pair) { return pair.gguf == rest; });
  DS4_CHECK(found != kNames.end(), "a tensor without a checkpoint name");
  return prefix + std::string(found->hf);
}

std::string hf_expert_name(const std::string& pattern, int64_t e) {
  std::string name = pattern;
  const size_t at = name.find("{}");
  DS4_CHECK(at != std::string::npos);
  return name.replace(at, 2, fmt::to_string(e));
}

std::string hf_scale_name(std::string_view weight_name) {
  constexpr std::string_view kSuffix = ".weight";
  if (weight_name.ends_with(kSuffix)) weight_name.remove_suffix(kSuffix.size());
  return std::string(weight_name) + ".scale";
}

}  // namespace ds4
