#pragma once
// The one list of the model's tensors: GGUF name, shape, kind and the field of Weights each belongs
// to. Binding walks it to fill fields; the quantizer walks it to plan a file. Names and shapes are
// described in docs/formats/gguf.md.
#include <functional>
#include <span>
#include <string>

#include "model/weights.h"

namespace ds4 {

// What a tensor is for decides which types it may have.
enum class TensorKind {
  kVector,      // norms, sinks, biases, hyper-connection base and scale: F32
  kEmbedding,   // token_embd: F16 BF16 F32
  kOutput,      // output head: Q8_0 F16 BF16 F32
  kProjection,  // attention projections and the MTP input projections: Q8_0 F16 BF16 F32
  kShared,      // shared experts: Q8_0 F16 BF16 F32
  kAttention,   // compressor and indexer matrices: F32 F16 BF16
  kDense,       // hyper-connection mixes and router: F32 F16 BF16
  kRoutedGate,  // routed experts: IQ2_XXS Q2_K Q4_K MXFP4 Q8_0, F32 F16 BF16 in memory
  kRoutedUp,
  kRoutedDown,
  kHashIds,  // expert ids by token: I32
};

inline bool is_routed(TensorKind kind) {
  return kind == TensorKind::kRoutedGate || kind == TensorKind::kRoutedUp ||
         kind == TensorKind::kRoutedDown;
}

struct TensorSpec {
  std::string name;  // GGUF name, "blk.3.attn_q_a.weight"
  Shape shape;       // outermost first
  TensorKind kind = TensorKind::kVector;
};

// Types the engine takes for a kind, most usual first.
std::span<const DType> accepted_types(TensorKind kind);

using TensorVisitor = std::function<void(const TensorSpec& spec, ConstTensor& field)>;

// Calls `visit` for every tensor of the main model, then of the MTP block if `weights.mtp` is set.
// Resizes weights.layers to the config and fills the compress ratios; fields are the visitor's.
void visit_weights(const ModelConfig& config, Weights& weights, const TensorVisitor& visit);

// The same for the MTP block alone (names `mtp.0.*`).
void visit_mtp(const ModelConfig& config, MtpWeights& mtp, const TensorVisitor& visit);

}  // namespace ds4
