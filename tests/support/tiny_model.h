#pragma once
// A small random model in memory with every kind of layer: window only, ratio 4 with an indexer
// that drops rows from 36 tokens on, ratio 128; hash-routed and scored experts; block-quantized,
// 16-bit and f32 weights. No file loader accepts its shape. Cheap enough for thousands of
// positions.
#include <cmath>
#include <cstdint>
#include <deque>
#include <random>
#include <stdexcept>
#include <vector>

#include "model/config.h"
#include "model/tensor_table.h"
#include "model/weights.h"
#include "quant/codec.h"
#include "tokenizer/token.h"

namespace ds4::test {

inline ModelConfig tiny_config() {
  ModelConfig c;
  c.name = "Tiny";
  c.compress_ratios = {0, 4, 128, 4, 128};
  c.n_layers = static_cast<int64_t>(c.compress_ratios.size());
  c.hidden = 64;
  c.vocab_size = 300;
  c.n_heads = 4;
  c.head_dim = 128;
  c.q_lora_rank = 32;
  c.o_groups = 2;
  c.o_lora_rank = 16;
  c.index_n_heads = 4;
  c.index_topk = 8;
  c.n_experts = 8;
  c.n_experts_used = 2;
  c.expert_ffn = 32;
  c.n_hash_layers = 2;
  return c;
}

class TinyModel {
 public:
  explicit TinyModel(ModelConfig config = tiny_config(), uint32_t seed = 1)
      : config_(std::move(config)), random_(seed) {
    visit_weights(config_, weights_, [&](const TensorSpec& spec, ConstTensor& field) {
      field = spec.kind == TensorKind::kHashIds ? hash_ids(spec.shape) : values(spec);
    });
  }
  TinyModel(const TinyModel&) = delete;
  TinyModel& operator=(const TinyModel&) = delete;

  const ModelConfig& config() const { return config_; }
  const Weights& weights() const { return weights_; }

 private:
  static bool ends_with(const TensorSpec& spec, std::string_view end) {
    return std::string_view(spec.name).ends_with(end);
  }
  static DType type_of(TensorKind kind) {
    switch (kind) {
      case TensorKind::kEmbedding:
        return DType::kF16;
      case TensorKind::kAttention:
        return DType::kBF16;
      case TensorKind::kRoutedGate:
      case TensorKind::kRoutedUp:
        return DType::kMXFP4;
      case TensorKind::kOutput:
      case TensorKind::kProjection:
      case TensorKind::kShared:
      case TensorKind::kRoutedDown:
        return DType::kQ8_0;
      case TensorKind::kVector:
      case TensorKind::kDense:
      case TensorKind::kHashIds:
        return DType::kF32;
    }
    return DType::kF32;
  }
  // Uniform in (-1, 1), the same on every machine.
  float uniform() { return static_cast<float>(random_() % 65536) / 32768.0f - 1.0f; }

  // Scales that keep activations near 1: norms around 1, matrices by their width.
  ConstTensor values(const TensorSpec& spec) {
    const int64_t cols = spec.shape.n_cols(), rows = spec.shape.n_rows();
    const bool norm = ends_with(spec, "norm.weight");
    const float scale = spec.kind == TensorKind::kVector      ? 0.2f
                        : spec.kind == TensorKind::kEmbedding ? 1.0f
                                                              : 2.0f / std::sqrt(float(cols));
    std::vector<float> row(static_cast<size_t>(cols));
    std::vector<std::byte>& bytes = storage_.emplace_back();
    const DType type = type_of(spec.kind);
    const int64_t row_size = row_bytes(type, cols);
    bytes.resize(static_cast<size_t>(rows * row_size));
    for (int64_t r = 0; r < rows; ++r) {
      for (float& v : row) v = (norm ? 1.0f : 0.0f) + scale * uniform();
      const auto encoded = encode_row(type, row.data(), nullptr, bytes.data() + r * row_size, cols);
      if (!encoded) throw std::runtime_error(spec.name + ": " + encoded.error().message);
    }
    return ConstTensor(bytes.data(), type, spec.shape);
  }

  ConstTensor hash_ids(const Shape& shape) {
    std::vector<std::byte>& bytes = storage_.emplace_back();
    bytes.resize(static_cast<size_t>(shape.n_elements()) * 4);
    int32_t* ids = reinterpret_cast<int32_t*>(bytes.data());
    for (int64_t token = 0; token < shape[0]; ++token) {
      const int64_t first = static_cast<int64_t>(random_() % 1024), step = 1 + 2 * (token % 3);
      for (int64_t k = 0; k < shape[1]; ++k) {  // distinct: an odd step, a power of two of experts
        ids[token * shape[1] + k] = static_cast<int32_t>((first + k * step) % config_.n_experts);
      }
    }
    return ConstTensor(bytes.data(), DType::kI32, shape);
  }

  ModelConfig config_;
  std::mt19937 random_;
  std::deque<std::vector<std::byte>> storage_;
  Weights weights_;
};

// Tokens 3 .. vocab - 1 in an order that does not repeat.
inline std::vector<Token> random_tokens(int64_t n, int64_t vocab, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Token> tokens(static_cast<size_t>(n));
  for (Token& token : tokens) {
    token = static_cast<Token>(3 + random() % static_cast<uint32_t>(vocab - 3));
  }
  return tokens;
}

}  // namespace ds4::test
