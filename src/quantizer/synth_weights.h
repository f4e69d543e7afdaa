#pragma once
// What a synthetic model's tensors hold: random weights whose scales keep activations bounded
// through any number of layers, and routing that is even or skewed on purpose.
//
//   matrices    deviation 1/sqrt(row length): a normalised input gives outputs near 1
//   embedding   deviation 1; norms 1 +- 0.1; sinks deviation 1
//   hyper-connections   pre near 1/2, post near 1; the 4x4 mix keeps most of each stream
//   router      even: no bias. Skewed: a bias that falls as 1/sqrt(rank) in a random order
//   hash ids    distinct within a row. Even: uniform. Skewed: with weights 1/sqrt(rank)
//
// A sublayer adds about half its input's size to streams that are mixed by averages, so they grow
// with the root of the number of layers. Bytes depend on the seed, the tensor's name and the row
// alone. Immutable; thread-safe.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/config.h"
#include "model/tensor_table.h"
#include "quantizer/synth_rows.h"
#include "tensor/dtype.h"

namespace ds4 {

enum class Routing {
  kUniform,  // every expert gets about the same number of tokens
  kSkewed,   // a few get several times the mean, as in a text about one thing
};

// "uniform", "skewed". Errors: kInvalidArgument.
Result<Routing> routing_from_name(std::string_view name);
std::string_view routing_name(Routing routing);

class SynthTensor {
 public:
  // `type` is one that planned_type() gives for `spec`.
  SynthTensor(const TensorSpec& spec, DType type, const ModelConfig& config, Routing routing,
              uint64_t seed);

  int64_t n_rows() const { return n_rows_; }
  int64_t row_bytes() const { return row_bytes_; }

  // Writes rows [first, first + n) to dst.
  void fill(int64_t first, int64_t n, std::byte* dst) const;

 private:
  void fill_vector(float* dst) const;
  void fill_router_bias(float* dst) const;
  void fill_ids(uint64_t key, int32_t* dst) const;

  enum class Content { kWeights, kVector, kHcBase, kRouterBias, kHashIds };

  Content content_ = Content::kWeights;
  uint64_t key_ = 0;
  int64_t n_rows_ = 0;
  int64_t n_cols_ = 0;
  int64_t row_bytes_ = 0;
  Routing routing_;
  std::unique_ptr<SynthRows> rows_;  // of kWeights
  double mean_ = 0, deviation_ = 0;  // of vectors
  int64_t n_hc_ = 0;
  // Experts from the most wanted to the least, and for each the sum of the weights up to it.
  std::vector<int32_t> ranked_;
  std::vector<uint64_t> cumulative_;
};

}  // namespace ds4
