#include "ops/importance_ops.h"

#include "base/check.h"

namespace ds4 {
namespace {

void add_squares(const float* x, int64_t n, double* sums) {
  for (int64_t i = 0; i < n; ++i) {
    sums[i] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
}

}  // namespace

ImportanceOps::ImportanceOps(std::unique_ptr<Ops> inner, Device& device, const ModelConfig& config,
                             const Weights& weights)
    : WrappedOps(std::move(inner)), device_(device) {
  const auto watch = [&](const MoeWeights& moe) {
    layer_of_gate_.emplace(moe.gate.data(), statistics_.size());
    const auto n_experts = static_cast<size_t>(config.n_experts);
    statistics_.push_back(
        {std::vector<int64_t>(n_experts),
         std::vector<double>(n_experts * static_cast<size_t>(config.hidden)),
         std::vector<double>(n_experts * static_cast<size_t>(config.expert_ffn))});
  };
  for (const LayerWeights& layer : weights.layers) watch(layer.moe);
  if (weights.mtp) watch(weights.mtp->layer.moe);
}

int64_t ImportanceOps::bytes_needed(const ModelConfig& config, bool with_mtp) {
  const int64_t per_expert =
      static_cast<int64_t>(sizeof(double)) * (config.hidden + config.expert_ffn + 1);
  return (config.n_layers + (with_mtp ? 1 : 0)) * config.n_experts * per_expert;
}

template <typename T>
void ImportanceOps::fetch(const ConstTensor& tensor, std::vector<T>& host) {
  DS4_CHECK(tensor.contiguous());
  host.resize(static_cast<size_t>(tensor.shape().n_elements()));
  device_.download(std::as_writable_bytes(std::span(host)), tensor.data());
}

void ImportanceOps::do_experts_gate_up(Tensor mid, ConstTensor x, ConstTensor ids,
                                       ConstTensor weights, ConstTensor gate, ConstTensor up,
                                       float limit) {
  inner().experts_gate_up(mid, x, ids, weights, gate, up, limit);
  const auto found = layer_of_gate_.find(gate.data());
  DS4_CHECK(found != layer_of_gate_.end(), "experts of a layer that is not the model's");
  ExpertStatistics& stats = statistics_[found->second];
  fetch(x, x_);
  fetch(ids, ids_);
  fetch(ConstTensor(mid), mid_);
  const int64_t n_rows = x.dim(0), n_slots = ids.dim(1), hidden = x.dim(1), ffn = mid.dim(2);
  for (int64_t slot = 0; slot < n_rows * n_slots; ++slot) {
    const auto expert = static_cast<int64_t>(ids_[static_cast<size_t>(slot)]);
    ++stats.counts[static_cast<size_t>(expert)];
    add_squares(x_.data() + slot / n_slots * hidden, hidden,
                stats.gate_up.data() + expert * hidden);
    add_squares(mid_.data() + slot * ffn, ffn, stats.down.data() + expert * ffn);
  }
}

}  // namespace ds4
