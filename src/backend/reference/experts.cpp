// Routed experts. The batch's rows are grouped by expert so that a weight row is decoded once; a
// row's own sums do not notice: experts are added in ascending id whatever else is in the batch.
#include "backend/reference/dot.h"
#include "backend/reference/reference_ops.h"
#include "quant/codec.h"

namespace ds4::reference {

void ReferenceOps::do_experts_gate_up(Tensor mid, ConstTensor x, ConstTensor ids,
                                      ConstTensor weights, ConstTensor gate, ConstTensor up,
                                      float limit) {
  const int64_t k = ids.dim(1), n_mid = gate.dim(1), hidden = gate.dim(2);
  DS4_CHECK(hidden <= kMaxCols);
  groups_.assign(ids, gate.dim(0));
  const float* weight = weights.row<float>(0);
  pool_.parallel_for(n_mid, [&](int64_t begin, int64_t end) {
    alignas(64) float gate_row[kMaxCols];
    alignas(64) float up_row[kMaxCols];
    for (int32_t e : groups_.active()) {
      for (int64_t f = begin; f < end; ++f) {
        decode_row(gate.dtype(), gate.row_data(e * n_mid + f), gate_row, hidden);
        decode_row(up.dtype(), up.row_data(e * n_mid + f), up_row, hidden);
        for (int32_t pair : groups_.pairs_of(e)) {
          const float* in = x.row<float>(pair / k);
          const float g = dot(gate_row, in, hidden), u = dot(up_row, in, hidden);
          mid.row<float>(pair)[f] = weight[pair] * swiglu_value(g, u, limit);
        }
      }
    }
  });
}

void ReferenceOps::do_experts_down(Tensor out, ConstTensor mid, ConstTensor ids, ConstTensor down) {
  const int64_t k = ids.dim(1), hidden = down.dim(1), n_mid = down.dim(2);
  DS4_CHECK(n_mid <= kMaxCols);
  groups_.assign(ids, down.dim(0));
  pool_.parallel_for(hidden, [&](int64_t begin, int64_t end) {
    alignas(64) float row[kMaxCols];
    for (int64_t n = 0; n < out.dim(0); ++n) {
      for (int64_t d = begin; d < end; ++d) out.row<float>(n)[d] = 0.0f;
    }
    for (int32_t e : groups_.active()) {
      for (int64_t d = begin; d < end; ++d) {
        decode_row(down.dtype(), down.row_data(e * hidden + d), row, n_mid);
        for (int32_t pair : groups_.pairs_of(e)) {
          out.row<float>(pair / k)[d] += dot(row, mid.row<float>(pair), n_mid);
        }
      }
    }
  });
}

}  // namespace ds4::reference
