#pragma once
// Ops that watch what routed experts are fed: the sums of squares an importance matrix is made of.
// Results are those of the wrapped Ops, bit for bit, and the walk does not know.
//
// For every (row, slot) that an expert serves, the squares of its input are added: the rows given
// to gate and up (one sum for both), and the rows given to down, which carry the routing weight
// already. Sums are f64 and in the order of rows, so they depend neither on threads nor on how a
// prompt is cut. Source: docs/formats/quant.md, importance matrix. Thread-compatible, like every
// Ops.
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "ops/device.h"
#include "ops/wrapped_ops.h"

namespace ds4 {

// Of one layer's routed experts.
struct ExpertStatistics {
  std::vector<int64_t> counts;  // [X] (row, slot) pairs an expert served
  std::vector<double> gate_up;  // [X, hidden] sums of squares
  std::vector<double> down;     // [X, expert_ffn]
};

class ImportanceOps final : public WrappedOps {
 public:
  // `weights` tells layers apart; `device` is the one `inner` computes on. Both must outlive this.
  ImportanceOps(std::unique_ptr<Ops> inner, Device& device, const ModelConfig& config,
                const Weights& weights);

  // One for each layer, and last one for the MTP block if the model has it.
  const std::vector<ExpertStatistics>& statistics() const { return statistics_; }

  // Memory that the sums take.
  static int64_t bytes_needed(const ModelConfig& config, bool with_mtp);

 private:
  void do_experts_gate_up(Tensor mid, ConstTensor x, ConstTensor ids, ConstTensor weights,
                          ConstTensor gate, ConstTensor up, float limit) override;

  template <typename T>
  void fetch(const ConstTensor& tensor, std::vector<T>& host);

  Device& device_;
  std::unordered_map<const std::byte*, size_t> layer_of_gate_;
  std::vector<ExpertStatistics> statistics_;
  std::vector<float> x_, mid_;
  std::vector<int32_t> ids_;
};

}  // namespace ds4
