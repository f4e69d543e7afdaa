// Norms, RoPE and the router: rows one by one, each with a kernel or two.
#include <algorithm>
#include <cstring>

#include "backend/cpu/cpu_ops.h"

namespace ds4::cpu {

void CpuOps::do_rms_norm(Tensor out, ConstTensor x, ConstTensor weight, float eps) {
  const int64_t width = x.n_cols();
  const float* w = weight.empty() ? nullptr : weight.row<float>(0);
  split(x.dim(0), 2 * width, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      kernels_.rms_norm(out.row<float>(r), x.row<float>(r), w, width, eps);
    }
  });
}

void CpuOps::do_rope(Tensor x, ConstTensor table, bool inverse) {
  const int64_t n_heads = x.dim(1), width = x.dim(2), n_pairs = table.dim(1) / 2;
  split(x.dim(0), 2 * n_heads * n_pairs, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      for (int64_t h = 0; h < n_heads; ++h) {
        kernels_.rotate(x.row<float>(n * n_heads + h) + width - 2 * n_pairs, table.row<float>(n),
                        n_pairs, inverse);
      }
    }
  });
}

namespace {

constexpr int64_t kMaxUsed = 64;     // experts of a token
constexpr int64_t kScoreChunk = 64;  // experts scored at a time

// The chosen experts by id, which is the order they are summed in, and their weights. `scores` are
// theirs and move along.
void finish_route(int32_t* ids, float* weights, float* scores, int64_t k, float scale) {
  float sum = 0;
  for (int64_t i = 0; i < k; ++i) {
    const int32_t id = ids[i];
    const float score = scores[i];
    int64_t at = i;
    for (; at > 0 && ids[at - 1] > id; --at) {
      ids[at] = ids[at - 1];
      scores[at] = scores[at - 1];
    }
    ids[at] = id;
    scores[at] = score;
  }
  for (int64_t i = 0; i < k; ++i) sum += scores[i];
  const float norm = std::max(sum, 0x1p-14f);
  for (int64_t i = 0; i < k; ++i) weights[i] = scale * scores[i] / norm;
}

}  // namespace

void CpuOps::do_route(Tensor ids, Tensor weights, ConstTensor logits, ConstTensor bias,
                      float scale) {
  const int64_t n_experts = logits.dim(1), k = ids.dim(1);
  const float* b = bias.row<float>(0);
  DS4_CHECK(k <= kMaxUsed);
  const auto choose = [&](int64_t n) {
    const float* logit = logits.row<float>(n);
    int32_t* id = ids.row<int32_t>(n);
    float best[kMaxUsed];    // biased scores, falling: what the choice is made by
    float chosen[kMaxUsed];  // the scores themselves
    int64_t filled = 0;
    for (int64_t first = 0; first < n_experts; first += kScoreChunk) {
      const int64_t n_scores = std::min(kScoreChunk, n_experts - first);
      float scores[kScoreChunk];
      kernels_.router_scores(scores, logit + first, n_scores);
      for (int64_t e = 0; e < n_scores; ++e) {
        const float biased = scores[e] + b[first + e];
        if (filled == k && !(biased > best[k - 1])) continue;
        int64_t at = filled < k ? filled++ : k - 1;
        for (; at > 0 && biased > best[at - 1]; --at) {
          best[at] = best[at - 1];
          chosen[at] = chosen[at - 1];
          id[at] = id[at - 1];
        }
        best[at] = biased;
        chosen[at] = scores[e];
        id[at] = static_cast<int32_t>(first + e);
      }
    }
    finish_route(id, weights.row<float>(n), chosen, k, scale);
  };
  split(ids.dim(0), 16 * n_experts, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) choose(n);
  });
}

void CpuOps::do_route_hashed(Tensor ids, Tensor weights, ConstTensor logits, ConstTensor tokens,
                             ConstTensor table, float scale) {
  const int64_t k = ids.dim(1);
  DS4_CHECK(k <= kMaxUsed);
  for (int64_t n = 0; n < ids.dim(0); ++n) {
    const int32_t token = tokens.row<int32_t>(0)[n];
    DS4_CHECK(token >= 0 && token < table.dim(0));
    int32_t* id = ids.row<int32_t>(n);
    std::memcpy(id, table.row_data(token), static_cast<size_t>(k) * sizeof(int32_t));
    float scores[kMaxUsed];
    for (int64_t i = 0; i < k; ++i) scores[i] = logits.row<float>(n)[id[i]];
    kernels_.router_scores(scores, scores, k);
    finish_route(id, weights.row<float>(n), scores, k, scale);
  }
}

}  // namespace ds4::cpu
