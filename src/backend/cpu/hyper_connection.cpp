// Hyper-connections: the mixing products are a small projection over all streams; what follows is a
// row's own few numbers and one pass over its streams.
#include "backend/cpu/cpu_ops.h"
#include "backend/host/hc_mix.h"

namespace ds4::cpu {

static_assert(kMaxHc == ds4::kMaxHc, "kernels and mixes bound the streams alike");

void CpuOps::mix_streams(ConstTensor streams, ConstTensor fn) {
  const int64_t n = streams.dim(0), n_mix = fn.dim(0), width = fn.dim(1);
  mixes_ = mixes_memory_.take<float>(n * n_mix);
  activations_.prepare(ActivationForm::kF32, streams.reshape({n, width}), 1, pool_);
  split(n_mix, width * n, [&](int64_t begin, int64_t end) {
    project_rows(mixes_, n_mix, {fn, false}, 1, begin, end);
  });
}

void CpuOps::do_hc_collapse(Tensor x, Tensor mix, ConstTensor streams, const HcWeights& w,
                            const HcParams& params) {
  const int64_t n_hc = params.n_hc, hidden = streams.dim(2), n_mix = w.fn.dim(0);
  DS4_CHECK(n_hc <= kMaxHc);
  if (streams.dim(0) == 0) return;
  mix_streams(streams, w.fn);
  split(streams.dim(0), 2 * n_hc * hidden, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const float* s = streams.row<float>(n * n_hc);
      // The mixes are scaled instead of the streams: the same up to rounding, without a copy.
      const float rms = kernels_.inverse_rms(s, n_hc * hidden, params.rms_eps);
      float* m = mixes_ + n * n_mix;
      float pre[kMaxHc];
      if (n_hc == 4) {
        kernels_.split_mixes_4(pre, mix.row<float>(n),
                               {.mixes = m,
                                .inverse_rms = rms,
                                .base = w.base.row<float>(0),
                                .scale = w.scale.row<float>(0),
                                .sinkhorn_iters = params.sinkhorn_iters,
                                .eps = params.hc_eps});
      } else {
        for (int64_t i = 0; i < n_mix; ++i) m[i] *= rms;
        split_mixes(m, w, params, pre, mix.row<float>(n));
      }
      kernels_.weighted_sum(x.row<float>(n), s, pre, n_hc, hidden);
    }
  });
}

void CpuOps::do_hc_expand(Tensor streams, ConstTensor y, ConstTensor mix) {
  const int64_t n_hc = streams.dim(1), hidden = streams.dim(2);
  DS4_CHECK(n_hc <= kMaxHc);
  split(streams.dim(0), n_hc * n_hc * hidden, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const float* post = mix.row<float>(n);
      kernels_.expand(streams.row<float>(n * n_hc), y.row<float>(n), post, post + n_hc, n_hc,
                      hidden);
    }
  });
}

void CpuOps::do_hc_head(Tensor x, ConstTensor streams, const HcWeights& w, const HcParams& params) {
  const int64_t n_hc = params.n_hc, hidden = streams.dim(2);
  DS4_CHECK(n_hc <= kMaxHc);
  if (streams.dim(0) == 0) return;
  mix_streams(streams, w.fn);
  split(streams.dim(0), 2 * n_hc * hidden, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const float* s = streams.row<float>(n * n_hc);
      const float rms = kernels_.inverse_rms(s, n_hc * hidden, params.rms_eps);
      float* m = mixes_ + n * n_hc;
      for (int64_t j = 0; j < n_hc; ++j) m[j] *= rms;
      float weight[kMaxHc];
      head_weights(m, w, params, weight);
      kernels_.weighted_sum(x.row<float>(n), s, weight, n_hc, hidden);
    }
  });
}

}  // namespace ds4::cpu
