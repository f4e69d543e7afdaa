#include "backend/host/hc_mix.h"

#include <algorithm>
#include <cmath>

namespace ds4 {
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

void split_mixes(const float* m, const HcWeights& w, const HcParams& params, float* pre,
                 float* mix) {
  const int64_t n = params.n_hc;
  const float* base = w.base.row<float>(0);
  const float* scale = w.scale.row<float>(0);
  float* post = mix;
  float* comb = mix + n;
  for (int64_t j = 0; j < n; ++j) {
    pre[j] = sigmoid(m[j] * scale[0] + base[j]) + params.hc_eps;
    post[j] = 2.0f * sigmoid(m[n + j] * scale[1] + base[n + j]);
  }
  for (int64_t i = 0; i < n * n; ++i) comb[i] = m[2 * n + i] * scale[2] + base[2 * n + i];
  sinkhorn(comb, n, params.sinkhorn_iters, params.hc_eps);
}

void head_weights(const float* m, const HcWeights& w, const HcParams& params, float* weight) {
  const float* base = w.base.row<float>(0);
  const float scale = w.scale.row<float>(0)[0];
  for (int64_t j = 0; j < params.n_hc; ++j) {
    weight[j] = sigmoid(m[j] * scale + base[j]) + params.hc_eps;
  }
}

}  // namespace ds4
