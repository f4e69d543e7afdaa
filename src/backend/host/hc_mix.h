#pragma once
// From the mixes of one row to the weights of its hyper-connection: a few dozen numbers, the same
// on every host backend. The mixes m = fn rms(flatten(streams)) are the backend's business.
#include <cstdint>

#include "ops/ops.h"

namespace ds4 {

inline constexpr int64_t kMaxHc = 8;                                // streams of a hyper-connection
inline constexpr int64_t kMaxHcMix = 2 * kMaxHc + kMaxHc * kMaxHc;  // mixes of a row

// pre [n_hc] of the streams, and mix [n_hc + n_hc^2]: post, then comb after Sinkhorn
// (Ops::hc_collapse).
//   m [2 n_hc + n_hc^2], scaled by the reciprocal RMS already
void split_mixes(const float* m, const HcWeights& w, const HcParams& params, float* pre,
                 float* mix);

// weight_j = sigmoid(m_j scale + base_j) + eps, [n_hc] each (Ops::hc_head).
void head_weights(const float* m, const HcWeights& w, const HcParams& params, float* weight);

}  // namespace ds4
