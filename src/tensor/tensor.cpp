#include "tensor/tensor.h"

#include <fmt/format.h>

namespace ds4 {

std::string Shape::to_string() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", (*this)[i]);
  return text + "]";
}

ConstTensor at(const ConstTensor& t, int64_t i) {
  DS4_CHECK(t.rank() >= 2 && i >= 0 && i < t.dim(0));
  Shape inner;
  for (int d = 1; d < t.rank(); ++d) inner.append(t.dim(d));
  const int64_t rows_each = t.n_rows() / t.dim(0);
  return ConstTensor(t.row_data(i * rows_each), t.dtype(), inner, t.row_stride());
}

}  // namespace ds4
