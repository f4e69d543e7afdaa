// Projections. A weight row is decoded to f32 once and multiplied with every row of the batch.
#include "backend/reference/dot.h"
#include "backend/reference/reference_ops.h"
#include "quant/codec.h"

namespace ds4::reference {

void ReferenceOps::do_linear(Tensor out, ConstTensor x, ConstTensor w) {
  do_grouped_linear(out, x, w, 1);
}

void ReferenceOps::do_grouped_linear(Tensor out, ConstTensor x, ConstTensor w, int64_t n_groups) {
  const int64_t cols = w.dim(1), rows_each = w.dim(0) / n_groups;
  DS4_CHECK(cols <= kMaxCols);
  pool_.parallel_for(w.dim(0), [&](int64_t begin, int64_t end) {
    alignas(64) float row[kMaxCols];
    for (int64_t o = begin; o < end; ++o) {
      decode_row(w.dtype(), w.row_data(o), row, cols);
      const int64_t group = o / rows_each;
      for (int64_t n = 0; n < x.dim(0); ++n) {
        out.row<float>(n)[o] = dot(x.row<float>(n) + group * cols, row, cols);
      }
    }
  });
}

}  // namespace ds4::reference
