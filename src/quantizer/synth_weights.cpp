#include "quantizer/synth_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace ds4 {
namespace {

// Of the most wanted expert; scores are near 0.8 +- 0.3. Gives Flash about the loads of its hash
// tables.
constexpr double kSkewedBias = 0.4;
constexpr double kHcDiagonal = 2.0;  // in the 4x4 mix, before its exponential

// Position-in-window biases and embeddings are added, not multiplied by a row.
double matrix_deviation(const TensorSpec& spec) {
  if (spec.kind == TensorKind::kEmbedding) return 1.0;
  if (spec.name.ends_with("_ape.weight")) return 0.5;
  return 1.0 / std::sqrt(static_cast<double>(spec.shape.n_cols()));
}

// Mean and deviation of a vector by what it is.
std::pair<double, double> vector_spread(std::string_view name) {
  if (name.ends_with("norm.weight")) return {1.0, 0.1};
  if (name.ends_with("_sinks.weight")) return {0.0, 1.0};
  if (name.ends_with("_scale.weight")) return {0.5, 0.05};
  return {0.0, 0.3};  // hyper-connection bases
}

// 0 .. n-1 in an order that the key decides (Fisher-Yates).
std::vector<int32_t> shuffled(int64_t n, uint64_t key) {
  std::vector<int32_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  SynthBits bits(key);
  for (size_t i = order.size() - 1; i > 0; --i) {
    std::swap(order[i], order[bits.below(static_cast<uint32_t>(i + 1))]);
  }
  return order;
}

// Of rank 0, 1, ...: the square root is exact on every machine, a power would not be.
double weight_of_rank(size_t rank) { return 1.0 / std::sqrt(static_cast<double>(rank + 1)); }

}  // namespace

Result<Routing> routing_from_name(std::string_view name) {
  if (name == "uniform") return Routing::kUniform;
  if (name == "skewed") return Routing::kSkewed;
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("routing: expected uniform or skewed, found {}", name));
}

std::string_view routing_name(Routing routing) {
  return routing == Routing::kUniform ? "uniform" : "skewed";
}

SynthTensor::SynthTensor(const TensorSpec& spec, DType type, const ModelConfig& config,
                         Routing routing, uint64_t seed)
    : key_(tensor_key(seed, spec.name)),
      n_rows_(spec.shape.n_rows()),
      n_cols_(spec.shape.n_cols()),
      row_bytes_(ds4::row_bytes(type, n_cols_)),
      routing_(routing),
      n_hc_(config.n_hc) {
  const bool is_bias = spec.name.ends_with("exp_probs_b.bias");
  if (spec.kind == TensorKind::kHashIds || is_bias) {
    content_ = is_bias ? Content::kRouterBias : Content::kHashIds;
    ranked_ = shuffled(config.n_experts, mix64(key_));
    uint64_t sum = 0;
    for (size_t rank = 0; rank < ranked_.size(); ++rank) {
      const double weight = routing == Routing::kSkewed ? weight_of_rank(rank) : 1.0;
      cumulative_.push_back(sum += static_cast<uint64_t>(weight * (1 << 20)));
    }
  } else if (spec.kind == TensorKind::kVector) {
    content_ = spec.name.ends_with("_base.weight") ? Content::kHcBase : Content::kVector;
    std::tie(mean_, deviation_) = vector_spread(spec.name);
  } else {
    rows_ = std::make_unique<SynthRows>(type, matrix_deviation(spec));
  }
}

void SynthTensor::fill(int64_t first, int64_t n, std::byte* dst) const {
  for (int64_t row = first; row < first + n; ++row, dst += row_bytes_) {
    const uint64_t key = row_key(key_, row);
    switch (content_) {
      case Content::kWeights:
        rows_->fill(key, n_cols_, dst);
        break;
      case Content::kHashIds:
        fill_ids(key, reinterpret_cast<int32_t*>(dst));
        break;
      case Content::kRouterBias:
        fill_router_bias(reinterpret_cast<float*>(dst));
        break;
      case Content::kVector:
      case Content::kHcBase:
        fill_vector(reinterpret_cast<float*>(dst));
        break;
    }
  }
}

void SynthTensor::fill_vector(float* dst) const {
  const SynthRows bell(DType::kF32, deviation_);
  bell.fill(row_key(key_, 0), n_cols_, reinterpret_cast<std::byte*>(dst));
  for (int64_t i = 0; i < n_cols_; ++i) dst[i] += static_cast<float>(mean_);
  // Of a mix [pre, post, n_hc x n_hc]; the base of a head ends before.
  if (content_ != Content::kHcBase) return;
  for (int64_t at = 2 * n_hc_; at < n_cols_; at += n_hc_ + 1) {
    dst[at] += static_cast<float>(kHcDiagonal);
  }
}

void SynthTensor::fill_router_bias(float* dst) const {
  for (size_t rank = 0; rank < ranked_.size(); ++rank) {
    const double bias = routing_ == Routing::kSkewed ? kSkewedBias * weight_of_rank(rank) : 0.0;
    dst[ranked_[rank]] = static_cast<float>(bias);
  }
}

void SynthTensor::fill_ids(uint64_t key, int32_t* dst) const {
  DS4_CHECK(n_cols_ <= static_cast<int64_t>(ranked_.size()));
  SynthBits bits(key);
  for (int64_t k = 0; k < n_cols_;) {
    const uint64_t at = bits.below(static_cast<uint32_t>(cumulative_.back()));
    const auto rank = std::upper_bound(cumulative_.begin(), cumulative_.end(), at);
    const int32_t id = ranked_[static_cast<size_t>(rank - cumulative_.begin())];
    if (std::find(dst, dst + k, id) == dst + k) dst[k++] = id;
  }
}

}  // namespace ds4
