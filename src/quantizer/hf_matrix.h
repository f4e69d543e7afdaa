#pragma once
// One tensor of the official checkpoint, whatever its storage: FP4 with a scale per 32 values, FP8
// with a scale per tile, BF16, F16, F32, or I64 ids. Found and checked once, then read row by row.
//
// Views into a Checkpoint, which must outlive it. Thread-safe.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "safetensors/checkpoint.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace ds4 {

class HfMatrix {
 public:
  // `shape` has one or two dimensions, as the model sees them: [rows, cols] values.
  // Errors: kNotFound when the tensor or its scales are missing; kUnsupported for another shape or
  // element type. All name the tensor.
  static Result<HfMatrix> find(const safetensors::Checkpoint& checkpoint, const std::string& name,
                               const Shape& shape);

  const std::string& name() const { return info_->name; }
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  bool is_f32() const { return info_->type == safetensors::ElementType::kF32; }
  bool is_fp4() const { return info_->type == safetensors::ElementType::kI8; }
  bool is_ids() const {
    return info_->type == safetensors::ElementType::kI64 ||
           info_->type == safetensors::ElementType::kI32;
  }

  // Row `row` as f32 [cols], exact. Not for ids (checked). Errors: kCorrupt for codes or scales
  // that are no number, with tensor, row and column.
  Result<void> decode_row(int64_t row, float* dst) const;

  // Row `row` as `type` in row_bytes(type, cols) bytes at `dst`. No arithmetic where none is
  // needed: FP4 to MXFP4 and FP8 or BF16 to BF16 keep every value. `importance` [cols] as in
  // encode_row(); `scratch` [cols] is the caller's. Errors: as decode_row; kUnsupported for a value
  // that F16 cannot hold; those of encode_row.
  Result<void> encode_row(int64_t row, DType type, const float* importance, float* scratch,
                          std::byte* dst) const;

  // Ids of row `row` as i32 [cols], each checked to be in [0, n_ids). Errors: kCorrupt.
  Result<void> ids_row(int64_t row, int64_t n_ids, int32_t* dst) const;

 private:
  HfMatrix(const safetensors::TensorInfo* info, int64_t rows, int64_t cols)
      : info_(info), rows_(rows), cols_(cols) {}
  const std::byte* row_data(int64_t row) const {
    return info_->data + row * cols_ * safetensors::element_bytes(info_->type);
  }

  const safetensors::TensorInfo* info_;
  const safetensors::TensorInfo* scale_ = nullptr;
  int64_t rows_;
  int64_t cols_;
};

}  // namespace ds4
