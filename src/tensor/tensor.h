#pragma once
// Views of dense row-major arrays. A Tensor does not own its bytes: weights live in a mapped file,
// activations in a workspace Buffer. The last dimension is contiguous; a view may keep a larger
// distance between rows (`slice_cols`), which is how an op is given a part of every row.
//
// Copying a view is cheap; the memory must outlive it. Dimensions are outermost first, at most 4:
// a matrix is [rows, cols], an expert stack [experts, rows, cols].
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>

#include "base/check.h"
#include "tensor/dtype.h"

namespace ds4 {

class Shape {
 public:
  static constexpr int kMaxRank = 4;
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) {
    DS4_CHECK(dims.size() <= static_cast<size_t>(kMaxRank));
    for (int64_t d : dims) dims_[static_cast<size_t>(rank_++)] = d;
  }

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[static_cast<size_t>(i)]; }
  void set(int i, int64_t dim) { dims_[static_cast<size_t>(i)] = dim; }
  void append(int64_t dim) {
    DS4_CHECK(rank_ < kMaxRank);
    dims_[static_cast<size_t>(rank_++)] = dim;
  }
  int64_t n_elements() const {
    int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= dims_[static_cast<size_t>(i)];
    return n;
  }
  // Width of a row, and the number of rows when all outer dimensions are flattened.
  int64_t n_cols() const { return rank_ == 0 ? 1 : (*this)[rank_ - 1]; }
  int64_t n_rows() const {
    int64_t n = 1;
    for (int i = 0; i + 1 < rank_; ++i) n *= dims_[static_cast<size_t>(i)];
    return n;
  }
  bool operator==(const Shape& other) const {
    if (rank_ != other.rank_) return false;
    for (int i = 0; i < rank_; ++i) {
      if ((*this)[i] != other[i]) return false;
    }
    return true;
  }
  // "[256, 4096]"
  std::string to_string() const;

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

// Shared by the two views; `Byte` is std::byte or const std::byte.
template <typename Byte>
class BasicTensor {
  template <typename T>
  using Elem = std::conditional_t<std::is_const_v<Byte>, const T, T>;

 public:
  BasicTensor() = default;
  BasicTensor(Byte* data, DType dtype, const Shape& shape)
      : data_(data),
        dtype_(dtype),
        shape_(shape),
        row_stride_(ds4::row_bytes(dtype, shape.n_cols())) {}
  BasicTensor(Byte* data, DType dtype, const Shape& shape, int64_t row_stride_bytes)
      : data_(data), dtype_(dtype), shape_(shape), row_stride_(row_stride_bytes) {}

  Byte* data() const { return data_; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t dim(int i) const { return shape_[i]; }
  int rank() const { return shape_.rank(); }
  int64_t n_rows() const { return shape_.n_rows(); }
  int64_t n_cols() const { return shape_.n_cols(); }
  // Distance between the starts of two rows, in bytes.
  int64_t row_stride() const { return row_stride_; }
  bool empty() const { return data_ == nullptr; }
  bool contiguous() const { return row_stride_ == ds4::row_bytes(dtype_, n_cols()); }

  Byte* row_data(int64_t r) const { return data_ + r * row_stride_; }

  // Row `r` (outer dimensions flattened) as values; for host code and plain element types only.
  template <typename T>
  Elem<T>* row(int64_t r) const {
    return reinterpret_cast<Elem<T>*>(data_ + r * row_stride_);
  }

  // Entries [begin, begin+n) of the outermost dimension.
  BasicTensor slice(int64_t begin, int64_t n) const {
    DS4_CHECK(rank() >= 1 && begin >= 0 && n >= 0 && begin + n <= shape_[0]);
    Shape shape = shape_;
    shape.set(0, n);
    const int64_t rows_each = shape_[0] == 0 || rank() == 1 ? 0 : n_rows() / shape_[0];
    const int64_t offset =
        rank() == 1 ? ds4::row_bytes(dtype_, begin) : begin * rows_each * row_stride_;
    return BasicTensor(data_ + offset, dtype_, shape, row_stride_);
  }

  // Columns [begin, begin+n) of every row; rows keep their distance.
  BasicTensor slice_cols(int64_t begin, int64_t n) const {
    DS4_CHECK(rank() >= 1 && begin >= 0 && n >= 0 && begin + n <= n_cols());
    Shape shape = shape_;
    shape.set(rank() - 1, n);
    return BasicTensor(data_ + ds4::row_bytes(dtype_, begin), dtype_, shape, row_stride_);
  }

  // The same bytes seen with other dimensions; needs contiguous rows and equal element count.
  BasicTensor reshape(const Shape& shape) const {
    DS4_CHECK(contiguous() && shape.n_elements() == shape_.n_elements());
    return BasicTensor(data_, dtype_, shape);
  }

  operator BasicTensor<const std::byte>() const
    requires(!std::is_const_v<Byte>)
  {
    return BasicTensor<const std::byte>(data_, dtype_, shape_, row_stride_);
  }

 private:
  Byte* data_ = nullptr;
  DType dtype_ = DType::kF32;
  Shape shape_;
  int64_t row_stride_ = 0;
};

using Tensor = BasicTensor<std::byte>;
using ConstTensor = BasicTensor<const std::byte>;

// Entry `i` of the outermost dimension, one rank lower: expert i of [experts, rows, cols].
ConstTensor at(const ConstTensor& t, int64_t i);

}  // namespace ds4
