#pragma once
// Every weight of the model under a name, bound once and checked once: after bind_weights()
// succeeds, each field has the shape in its comment and a type the engine computes with, and nobody
// looks a tensor up by string again. Field order follows the forward pass.
//
// The views do not own their bytes: they live as long as what the lookup reads from (a Model, or a
// test's arrays). Shapes are outermost first; E hidden, H heads, D head_dim, V vocab, X experts, F
// expert_ffn, r compress ratio, w compressor width, M mixing rows.
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/config.h"
#include "tensor/tensor.h"

namespace ds4 {

// One hyper-connection mix (paper §2.2); `fn` is [n_hc, n_hc*E], base [n_hc], scale [1] for a head.
struct HcWeights {
  ConstTensor fn;     // [M, n_hc*E]    F32 F16 BF16
  ConstTensor base;   // [M]            F32
  ConstTensor scale;  // [3]            F32
};

// Empty in layers without compression.
struct CompressorWeights {
  ConstTensor kv;    // [w, E]          F32 F16 BF16
  ConstTensor gate;  // [w, E]          F32 F16 BF16
  ConstTensor ape;   // [r, w]          F32 F16 BF16; row j is the bias of position j of a window
  ConstTensor norm;  // [D]             F32
};

// Empty except in layers of ratio 4. Its compressor has w = 2*index_head_dim, norm
// [index_head_dim].
struct IndexerWeights {
  ConstTensor q_b;   // [index_n_heads*index_head_dim, q_lora_rank]   F32 F16 BF16
  ConstTensor proj;  // [index_n_heads, E]                            F32 F16 BF16
  CompressorWeights compressor;
};

struct AttentionWeights {
  ConstTensor norm;      // [E]                   F32
  ConstTensor q_a;       // [q_lora_rank, E]      Q8_0 F16 BF16 F32, as all projections
  ConstTensor q_a_norm;  // [q_lora_rank]         F32
  ConstTensor q_b;       // [H*D, q_lora_rank]
  ConstTensor kv;        // [D, E]
  ConstTensor kv_norm;   // [D]                   F32
  ConstTensor sinks;     // [H]                   F32
  // o_groups matrices [o_lora_rank, H*D/o_groups] on top of each other: rows of group g see only
  // the heads of group g.
  ConstTensor o_a;  // [o_groups*o_lora_rank, H*D/o_groups]
  ConstTensor o_b;  // [E, o_groups*o_lora_rank]
};

struct MoeWeights {
  ConstTensor norm;         // [E]                     F32
  ConstTensor router;       // [X, E]                  F32 F16 BF16
  ConstTensor router_bias;  // [X] F32; empty in hash layers
  ConstTensor hash_ids;     // [V, n_experts_used] I32, values in [0, X); empty in other layers
  // Routed experts: IQ2_XXS Q2_K Q4_K MXFP4 Q8_0, in memory also F32 F16 BF16; gate and up agree.
  ConstTensor gate;         // [X, F, E]
  ConstTensor up;           // [X, F, E]
  ConstTensor down;         // [X, E, F]
  ConstTensor shared_gate;  // [F, E]                  Q8_0 F16 BF16 F32
  ConstTensor shared_up;    // [F, E]
  ConstTensor shared_down;  // [E, F]
};

struct LayerWeights {
  int compress_ratio = 0;
  HcWeights attn_hc;
  HcWeights ffn_hc;
  AttentionWeights attn;
  CompressorWeights compressor;
  IndexerWeights indexer;
  MoeWeights moe;
};

// The draft block: a ratio-0 layer with its own head mix and two input projections.
struct MtpWeights {
  LayerWeights layer;
  ConstTensor e_proj;  // [E, E]
  ConstTensor h_proj;  // [E, E]
  ConstTensor enorm;   // [E]  F32
  ConstTensor hnorm;   // [E]  F32
  ConstTensor norm;    // [E]  F32
  HcWeights hc_head;   // fn [n_hc, n_hc*E]
};

struct Weights {
  ConstTensor token_embd;   // [V, E]   F16 BF16 F32
  ConstTensor output_norm;  // [E]      F32
  ConstTensor output;       // [V, E]   Q8_0 F16 BF16 F32
  HcWeights output_hc;      // fn [n_hc, n_hc*E], base [n_hc], scale [1]
  std::vector<LayerWeights> layers;
  std::optional<MtpWeights> mtp;
};

// Finds a tensor by its GGUF name; empty when there is none of a type the engine knows.
using TensorLookup = std::function<std::optional<ConstTensor>(std::string_view gguf_name)>;
// Asked only when TensorLookup found nothing: the type name of a tensor that is present but of a
// type the engine does not know, empty when it is absent.
using UnusableLookup = std::function<std::optional<std::string>(std::string_view gguf_name)>;

// Binds every tensor the config calls for. The MTP block is bound when `mtp.0.*` tensors are
// present, whatever the metadata says. Reads tensor bytes only of the hash tables, to check their
// range. Errors: kUnsupported, one message that lists all missing tensors, wrong shapes and wrong
// types (the first 20 by name, then a count); kCorrupt for an expert id out of range.
Result<Weights> bind_weights(const ModelConfig& config, const TensorLookup& lookup,
                             const UnusableLookup& unusable = {});

// Binds the MTP block alone, for a draft block in its own file. Errors as above; kUnsupported
// naming DSpark when the tensors belong to that other drafter.
Result<MtpWeights> bind_mtp(const ModelConfig& config, const TensorLookup& lookup,
                            const UnusableLookup& unusable = {});

}  // namespace ds4
