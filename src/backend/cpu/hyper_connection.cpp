// Hyper-connections: the mixing products are a small projection over all streams; what follows is a
// row's own few numbers and one pass over its streams.
#include <algorithm>
#include <cmath>

#include "backend/cpu/cpu_ops.h"

namespace ds4::cpu {
namespace {

float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

void column_step(float* a, int64_t n, float eps) {
  for (int64_t k = 0; k < n; ++k) {
    float sum = 0;
    for (int64_t j = 0; j < n; ++j) sum += a[j * n + k];
    for (int64_t j = 0; j < n; ++j) a[j * n + k] /= sum + eps;
  }
}

void row_step(float* a, int64_t n, float eps) {
  for (int64_t j = 0; j < n; ++j) {
    float sum = 0;
    for (int64_t k = 0; k < n; ++k) sum += a[j * n + k];
    for (int64_t k = 0; k < n; ++k) a[j * n + k] /= sum + eps;
  }
}

// Softmax of each row plus eps, a column step, then row and column steps in turn. It ends with a
// column step as the trained graph does: columns sum to one, rows only nearly.
void sinkhorn(float* a, int64_t n, int64_t iters, float eps) {
  for (int64_t j = 0; j < n; ++j) {
    float* row = a + j * n;
    const float max = *std::max_element(row, row + n);
    float sum = 0;
    for (int64_t k = 0; k < n; ++k) sum += row[k] = std::exp(row[k] - max);
    for (int64_t k = 0; k < n; ++k) row[k] = row[k] / sum + eps;
  }
  column_step(a, n, eps);
  for (int64_t step = 1; step < iters; ++step) {
    row_step(a, n, eps);
    column_step(a, n, eps);
  }
}

}  // namespace

void CpuOps::mix_streams(ConstTensor streams, ConstTensor fn) {
  const int64_t n = streams.dim(0), n_mix = fn.dim(0), width = fn.dim(1);
  if (static_cast<int64_t>(mixes_.size()) < n * n_mix)
    mixes_.resize(static_cast<size_t>(n * n_mix));
  activations_.prepare(ActivationForm::kF32, streams.reshape({n, width}), 1, pool_);
  split(n_mix, width * n,
        [&](int64_t begin, int64_t end) { project_rows(mixes_.data(), n_mix, fn, 1, begin, end); });
}

void CpuOps::do_hc_collapse(Tensor x, Tensor mix, ConstTensor streams, const HcWeights& w,
                            const HcParams& params) {
  const int64_t n_hc = params.n_hc, hidden = streams.dim(2), n_mix = w.fn.dim(0);
  DS4_CHECK(n_hc <= kMaxHc);
  if (streams.dim(0) == 0) return;
  mix_streams(streams, w.fn);
  const float* base = w.base.row<float>(0);
  const float* scale = w.scale.row<float>(0);
  split(streams.dim(0), 2 * n_hc * hidden, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const float* s = streams.row<float>(n * n_hc);
      // The mixes are scaled instead of the streams: the same up to rounding, without a copy.
      const float rms = inverse_rms(s, n_hc * hidden, params.rms_eps);
      const float* m = mixes_.data() + n * n_mix;
      float pre[kMaxHc];
      float* post = mix.row<float>(n);
      float* comb = post + n_hc;
      for (int64_t j = 0; j < n_hc; ++j) {
        pre[j] = sigmoid(m[j] * rms * scale[0] + base[j]) + params.hc_eps;
        post[j] = 2.0f * sigmoid(m[n_hc + j] * rms * scale[1] + base[n_hc + j]);
      }
      for (int64_t i = 0; i < n_hc * n_hc; ++i) {
        comb[i] = m[2 * n_hc + i] * rms * scale[2] + base[2 * n_hc + i];
      }
      sinkhorn(comb, n_hc, params.sinkhorn_iters, params.hc_eps);
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
  const float* base = w.base.row<float>(0);
  const float scale = w.scale.row<float>(0)[0];
  split(streams.dim(0), 2 * n_hc * hidden, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const float* s = streams.row<float>(n * n_hc);
      const float rms = inverse_rms(s, n_hc * hidden, params.rms_eps);
      float weight[kMaxHc];
      for (int64_t j = 0; j < n_hc; ++j) {
        weight[j] = sigmoid(mixes_[static_cast<size_t>(n * n_hc + j)] * rms * scale + base[j]) +
                    params.hc_eps;
      }
      kernels_.weighted_sum(x.row<float>(n), s, weight, n_hc, hidden);
    }
  });
}

}  // namespace ds4::cpu
