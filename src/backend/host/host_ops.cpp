#include "backend/host/host_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "quant/codec.h"
#include "quant/packed_index.h"
#include "quant/packed_kv.h"
#include "quant/round_trip.h"

namespace ds4 {

// The sizes that the engine plans with are those of the formats.
static_assert(kv_row_bytes(RowFormat::kPackedKv, 512) == packed_kv_bytes(512));
static_assert(kv_row_bytes(RowFormat::kPackedKv, 128) == packed_kv_bytes(128));
static_assert(kv_row_bytes(RowFormat::kPackedIndex, kPackedIndexElems) == sizeof(PackedIndexRow));

void ExpertGroups::reserve(int64_t n_experts, int64_t n_pairs) {
  begin_.reserve(static_cast<size_t>(n_experts) + 1);
  active_.reserve(static_cast<size_t>(n_experts));
  pairs_.reserve(static_cast<size_t>(n_pairs));
}

void ExpertGroups::assign(ConstTensor ids, int64_t n_experts) {
  const int64_t n_pairs = ids.shape().n_elements();
  const int32_t* id = ids.row<int32_t>(0);
  begin_.assign(static_cast<size_t>(n_experts) + 1, 0);
  pairs_.resize(static_cast<size_t>(n_pairs));
  active_.clear();
  for (int64_t i = 0; i < n_pairs; ++i) ++begin_[static_cast<size_t>(id[i]) + 1];
  for (size_t e = 0; e < static_cast<size_t>(n_experts); ++e) {
    if (begin_[e + 1] > 0) active_.push_back(static_cast<int32_t>(e));
    begin_[e + 1] += begin_[e];
  }
  for (int64_t i = 0; i < n_pairs; ++i) {
    pairs_[static_cast<size_t>(begin_[static_cast<size_t>(id[i])]++)] = static_cast<int32_t>(i);
  }
  // Filling moved every begin to its group's end, which is the next group's begin.
  for (size_t e = static_cast<size_t>(n_experts); e > 0; --e) begin_[e] = begin_[e - 1];
  begin_[0] = 0;
}

std::span<const int32_t> ExpertGroups::pairs_of(int64_t expert) const {
  const int32_t begin = begin_[static_cast<size_t>(expert)];
  const int32_t end = begin_[static_cast<size_t>(expert) + 1];
  return {pairs_.data() + begin, static_cast<size_t>(end - begin)};
}

void HostOps::do_embed(Tensor x, ConstTensor table, ConstTensor tokens) {
  const int32_t* token = tokens.row<int32_t>(0);
  pool_.parallel_for(x.dim(0), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      DS4_CHECK(token[n] >= 0 && token[n] < table.dim(0));
      decode_row(table.dtype(), table.row_data(token[n]), x.row<float>(n), table.dim(1));
    }
  });
}

void HostOps::do_broadcast_streams(Tensor streams, ConstTensor x) {
  const size_t bytes = static_cast<size_t>(x.dim(1)) * sizeof(float);
  const int64_t n_hc = streams.dim(1);
  pool_.parallel_for(x.dim(0), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      for (int64_t k = 0; k < n_hc; ++k) {
        std::memcpy(streams.row_data(n * n_hc + k), x.row_data(n), bytes);
      }
    }
  });
}

void HostOps::do_add_to_streams(Tensor streams, ConstTensor x) {
  const int64_t n_hc = streams.dim(1), hidden = x.dim(1);
  pool_.parallel_for(streams.n_rows(), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float* out = streams.row<float>(r);
      const float* in = x.row<float>(r / n_hc);
      for (int64_t d = 0; d < hidden; ++d) out[d] += in[d];
    }
  });
}

void HostOps::do_gather_rows(Tensor dst, ConstTensor src, std::span<const int64_t> rows) {
  const int64_t each = src.dim(0) == 0 ? 0 : src.n_rows() / src.dim(0);
  const int64_t bytes = each * src.row_stride();
  for (size_t m = 0; m < rows.size(); ++m) {
    std::memcpy(dst.row_data(static_cast<int64_t>(m) * each), src.row_data(rows[m] * each),
                static_cast<size_t>(bytes));
  }
}

float inverse_rms(const float* x, int64_t n, float eps) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  const float mean = static_cast<float>(sum / static_cast<double>(n));
  return 1.0f / std::sqrt(mean + eps);
}

void HostOps::do_rms_norm(Tensor out, ConstTensor x, ConstTensor weight, float eps) {
  const int64_t width = x.n_cols();
  const float* w = weight.empty() ? nullptr : weight.row<float>(0);
  pool_.parallel_for(x.dim(0), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* in = x.row<float>(r);
      float* o = out.row<float>(r);
      const float scale = inverse_rms(in, width, eps);
      for (int64_t i = 0; i < width; ++i) {
        o[i] = w == nullptr ? in[i] * scale : w[i] * (in[i] * scale);
      }
    }
  });
}

void HostOps::do_add(Tensor out, ConstTensor x) {
  pool_.parallel_for(out.n_rows(), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float* o = out.row<float>(r);
      const float* a = x.row<float>(r);
      for (int64_t d = 0; d < out.n_cols(); ++d) o[d] += a[d];
    }
  });
}

void rope_cos_sin(int64_t pos, float freq, float* cos_out, float* sin_out) {
  const float angle = static_cast<float>(pos) * freq;
  *cos_out = static_cast<float>(std::cos(static_cast<double>(angle)));
  *sin_out = static_cast<float>(std::sin(static_cast<double>(angle)));
}

void rotate_tail(float* head, int64_t width, const float* table, int64_t n_pairs, bool inverse) {
  float* x = head + width - 2 * n_pairs;
  for (int64_t i = 0; i < n_pairs; ++i) {
    const float c = table[2 * i];
    const float s = inverse ? -table[2 * i + 1] : table[2 * i + 1];
    const float x0 = x[2 * i], x1 = x[2 * i + 1];
    x[2 * i] = x0 * c - x1 * s;
    x[2 * i + 1] = x0 * s + x1 * c;
  }
}

void HostOps::do_rope_table(Tensor table, ConstTensor positions, std::span<const float> freqs) {
  const int64_t* pos = positions.row<int64_t>(0);
  pool_.parallel_for(table.dim(0), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      float* row = table.row<float>(n);
      for (size_t i = 0; i < freqs.size(); ++i) {
        rope_cos_sin(pos[n], freqs[i], &row[2 * i], &row[2 * i + 1]);
      }
    }
  });
}

void HostOps::do_rope(Tensor x, ConstTensor table, bool inverse) {
  const int64_t n_heads = x.dim(1), width = x.dim(2), n_pairs = table.dim(1) / 2;
  pool_.parallel_for(x.n_rows(), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      rotate_tail(x.row<float>(r), width, table.row<float>(r / n_heads), n_pairs, inverse);
    }
  });
}

void round_kv_row(float* row, int64_t head_dim, int64_t rope_head_dim, const Precision& precision) {
  const int64_t plain = head_dim - rope_head_dim;
  if (precision.kv_fp8) fp8_round_trip(row, plain);
  if (precision.kv_rope_bf16) bf16_round_trip(row + plain, rope_head_dim);
}

void store_kv_row(std::byte* dst, RowFormat format, const float* row, int64_t width) {
  switch (format) {
    case RowFormat::kF32:
      std::memcpy(dst, row, static_cast<size_t>(width) * sizeof(float));
      return;
    case RowFormat::kPackedKv:
      encode_packed_kv(row, width, reinterpret_cast<uint8_t*>(dst));
      return;
    case RowFormat::kPackedIndex:
      DS4_CHECK(width == kPackedIndexElems);
      encode_packed_index(row, reinterpret_cast<PackedIndexRow*>(dst));
      return;
  }
}

void HostOps::do_round_kv(Tensor kv, int64_t rope_head_dim, const Precision& precision) {
  pool_.parallel_for(kv.dim(0), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      round_kv_row(kv.row<float>(n), kv.dim(1), rope_head_dim, precision);
    }
  });
}

void HostOps::do_round_index(Tensor rows) {
  pool_.parallel_for(rows.dim(0), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) indexer_round_trip(rows.row<float>(n));
  });
}

void HostOps::do_append_raw(std::span<const KvSpan> spans, ConstTensor kv) {
  for (const KvSpan& span : spans) {
    const RingRows& ring = span.kv.ring;
    for (int64_t i = std::max<int64_t>(0, span.n_rows - ring.n_rows); i < span.n_rows; ++i) {
      store_kv_row(ring.row(span.first_pos + i), ring.format, kv.row<float>(span.first_row + i),
                   kv.dim(1));
    }
  }
}

namespace {

// sqrt(softplus(x)), with the asymptotes where log(1 + e^x) loses its digits.
float router_score(float logit) {
  if (logit > 20.0f) return std::sqrt(logit);
  if (logit < -20.0f) return std::sqrt(std::exp(logit));
  return std::sqrt(std::log1p(std::exp(logit)));
}

// Weights of the chosen experts; `ids` is sorted here, because experts are summed in id order.
void finish_route(int32_t* ids, float* weights, int64_t k, const float* logits, float scale) {
  std::sort(ids, ids + k);
  float sum = 0;
  for (int64_t i = 0; i < k; ++i) {
    weights[i] = router_score(logits[ids[i]]);
    sum += weights[i];
  }
  const float norm = std::max(sum, 0x1p-14f);
  for (int64_t i = 0; i < k; ++i) weights[i] = scale * weights[i] / norm;
}

}  // namespace

void HostOps::do_route(Tensor ids, Tensor weights, ConstTensor logits, ConstTensor bias,
                       float scale) {
  const int64_t n_experts = logits.dim(1), k = ids.dim(1);
  const float* b = bias.row<float>(0);
  pool_.parallel_for(ids.dim(0), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const float* logit = logits.row<float>(n);
      int32_t* id = ids.row<int32_t>(n);
      float* best = weights.row<float>(n);  // holds the biased scores of `id` until they are sorted
      int64_t filled = 0;
      for (int64_t e = 0; e < n_experts; ++e) {
        const float score = router_score(logit[e]) + b[e];
        if (filled == k && !(score > best[k - 1])) continue;
        int64_t at = filled < k ? filled++ : k - 1;
        for (; at > 0 && score > best[at - 1]; --at) {
          best[at] = best[at - 1];
          id[at] = id[at - 1];
        }
        best[at] = score;
        id[at] = static_cast<int32_t>(e);
      }
      finish_route(id, best, k, logit, scale);
    }
  });
}

void HostOps::do_route_hashed(Tensor ids, Tensor weights, ConstTensor logits, ConstTensor tokens,
                              ConstTensor table, float scale) {
  const int64_t k = ids.dim(1);
  for (int64_t n = 0; n < ids.dim(0); ++n) {
    const int32_t token = tokens.row<int32_t>(0)[n];
    DS4_CHECK(token >= 0 && token < table.dim(0));
    std::memcpy(ids.row_data(n), table.row_data(token), static_cast<size_t>(k) * sizeof(int32_t));
    finish_route(ids.row<int32_t>(n), weights.row<float>(n), k, logits.row<float>(n), scale);
  }
}

float swiglu_value(float g, float u, float limit) {
  g = std::min(g, limit);
  u = std::clamp(u, -limit, limit);
  return g / (1.0f + std::exp(-g)) * u;
}

void HostOps::do_swiglu(Tensor h, ConstTensor g, ConstTensor u, float limit) {
  pool_.parallel_for(h.n_rows(), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float* out = h.row<float>(r);
      const float *gate = g.row<float>(r), *up = u.row<float>(r);
      for (int64_t i = 0; i < h.n_cols(); ++i) out[i] = swiglu_value(gate[i], up[i], limit);
    }
  });
}

}  // namespace ds4
