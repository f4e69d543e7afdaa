// Hyper-connections: how the residual streams enter and leave a sublayer (paper section 2.2).
#include "backend/host/hc_mix.h"
#include "backend/reference/dot.h"
#include "backend/reference/reference_ops.h"
#include "quant/codec.h"

namespace ds4::reference {
namespace {

// All rows of the mixing matrix in f32.
const float* decode_matrix(Scratch& memory, ConstTensor w) {
  float* out = memory.take<float>(w.shape().n_elements());
  for (int64_t r = 0; r < w.dim(0); ++r) {
    decode_row(w.dtype(), w.row_data(r), out + r * w.dim(1), w.dim(1));
  }
  return out;
}

// x = sum_j weight_j streams_j.
void weighted_sum(float* x, const float* streams, const float* weight, int64_t n_hc,
                  int64_t hidden) {
  for (int64_t d = 0; d < hidden; ++d) {
    float sum = 0;
    for (int64_t j = 0; j < n_hc; ++j) sum += weight[j] * streams[j * hidden + d];
    x[d] = sum;
  }
}

}  // namespace

void ReferenceOps::do_hc_collapse(Tensor x, Tensor mix, ConstTensor streams, const HcWeights& w,
                                  const HcParams& params) {
  const int64_t n_hc = params.n_hc, hidden = streams.dim(2), width = n_hc * hidden;
  DS4_CHECK(n_hc <= kMaxHc);
  const float* fn = decode_matrix(decoded_, w.fn);
  pool_.parallel_for(streams.dim(0), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const float* s = streams.row<float>(n * n_hc);
      const float rms = inverse_rms(s, width, params.rms_eps);
      // Scaling the mixes instead of the streams: the same up to rounding, and no copy of u.
      float m[kMaxHcMix];
      for (int64_t i = 0; i < w.fn.dim(0); ++i) {
        m[i] = dot(fn + i * width, s, width) * rms;
      }
      float pre[kMaxHc];
      split_mixes(m, w, params, pre, mix.row<float>(n));
      weighted_sum(x.row<float>(n), s, pre, n_hc, hidden);
    }
  });
}

void ReferenceOps::do_hc_expand(Tensor streams, ConstTensor y, ConstTensor mix) {
  const int64_t n_hc = streams.dim(1), hidden = streams.dim(2);
  DS4_CHECK(n_hc <= kMaxHc);
  pool_.parallel_for(streams.dim(0), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      float* s = streams.row<float>(n * n_hc);
      const float* out = y.row<float>(n);
      const float* post = mix.row<float>(n);
      const float* comb = post + n_hc;
      for (int64_t d = 0; d < hidden; ++d) {
        float old[kMaxHc];
        for (int64_t j = 0; j < n_hc; ++j) old[j] = s[j * hidden + d];
        for (int64_t k = 0; k < n_hc; ++k) {
          float sum = post[k] * out[d];
          for (int64_t j = 0; j < n_hc; ++j) sum += comb[j * n_hc + k] * old[j];
          s[k * hidden + d] = sum;
        }
      }
    }
  });
}

void ReferenceOps::do_hc_head(Tensor x, ConstTensor streams, const HcWeights& w,
                              const HcParams& params) {
  const int64_t n_hc = params.n_hc, hidden = streams.dim(2), width = n_hc * hidden;
  DS4_CHECK(n_hc <= kMaxHc);
  const float* fn = decode_matrix(decoded_, w.fn);
  pool_.parallel_for(streams.dim(0), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const float* s = streams.row<float>(n * n_hc);
      const float rms = inverse_rms(s, width, params.rms_eps);
      float m[kMaxHc], weight[kMaxHc];
      for (int64_t j = 0; j < n_hc; ++j) {
        m[j] = dot(fn + j * width, s, width) * rms;
      }
      head_weights(m, w, params, weight);
      weighted_sum(x.row<float>(n), s, weight, n_hc, hidden);
    }
  });
}

}  // namespace ds4::reference
