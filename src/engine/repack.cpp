#include "engine/repack.h"

namespace ds4 {
namespace {

void add_dense(std::vector<ConstTensor>& order, const LayerWeights& layer) {
  const AttentionWeights& a = layer.attn;
  const MoeWeights& m = layer.moe;
  order.insert(order.end(),
               {a.q_a, a.q_b, a.kv, a.o_a, a.o_b, m.shared_gate, m.shared_up, m.shared_down});
}

void add_experts(std::vector<ConstTensor>& order, const LayerWeights& layer) {
  order.insert(order.end(), {layer.moe.gate, layer.moe.up, layer.moe.down});
}

}  // namespace

std::vector<ConstTensor> repack_order(const Weights& weights) {
  std::vector<ConstTensor> order;
  for (const LayerWeights& layer : weights.layers) add_dense(order, layer);
  order.push_back(weights.output);
  for (const LayerWeights& layer : weights.layers) add_experts(order, layer);
  if (weights.mtp) {
    add_dense(order, weights.mtp->layer);
    order.insert(order.end(), {weights.mtp->e_proj, weights.mtp->h_proj});
    add_experts(order, weights.mtp->layer);
  }
  return order;
}

int64_t repackable_bytes(const Weights& weights, BackendKind kind, const BackendOptions& options) {
  return backend_repack_bytes(kind, options, repack_order(weights));
}

}  // namespace ds4
