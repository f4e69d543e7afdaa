#include "quantizer/hf_matrix.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "quant/codec.h"
#include "quant/hf_codecs.h"
#include "quantizer/hf_names.h"

namespace ds4 {
namespace {

using safetensors::ElementType;
using safetensors::TensorInfo;

// Largest magnitude that does not round to infinity in F16.
constexpr float kF16Limit = 65520.0f;

HfFp8Matrix fp8_view(const TensorInfo& codes, const TensorInfo& scales, int64_t rows,
                     int64_t cols) {
  return {reinterpret_cast<const uint8_t*>(codes.data),
          reinterpret_cast<const uint8_t*>(scales.data), rows, cols};
}
HfFp4Matrix fp4_view(const TensorInfo& codes, const TensorInfo& scales, int64_t rows,
                     int64_t cols) {
  return {reinterpret_cast<const uint8_t*>(codes.data),
          reinterpret_cast<const uint8_t*>(scales.data), rows, cols};
}

Result<void> expect_shape(const TensorInfo& info, std::vector<int64_t> expected) {
  if (info.shape == expected) return {};
  TensorInfo wanted;
  wanted.shape = std::move(expected);
  return fail(ErrorCode::kUnsupported, fmt::format("{}: expected shape {}, found {}", info.name,
                                                   wanted.shape_text(), info.shape_text()));
}

Result<const TensorInfo*> find_scale(const safetensors::Checkpoint& checkpoint,
                                     const TensorInfo& weight, std::vector<int64_t> shape) {
  const std::string name = hf_scale_name(weight.name);
  const TensorInfo* scale = checkpoint.find(name);
  if (scale == nullptr) {
    return fail(ErrorCode::kNotFound,
                fmt::format("{} is missing, which {} of type {} needs", name, weight.name,
                            safetensors::element_name(weight.type)));
  }
  if (scale->type != ElementType::kF8E8M0) {
    return fail(ErrorCode::kUnsupported, fmt::format("{}: expected type F8_E8M0, found {}", name,
                                                     safetensors::element_name(scale->type)));
  }
  DS4_TRY_VOID(expect_shape(*scale, std::move(shape)));
  return scale;
}

DType plain_dtype(ElementType type) {
  switch (type) {
    case ElementType::kF32:
      return DType::kF32;
    case ElementType::kF16:
      return DType::kF16;
    case ElementType::kBF16:
      return DType::kBF16;
    default:
      break;
  }
  DS4_CHECK(false, "not a plain float type");
  return DType::kF32;
}

}  // namespace

Result<HfMatrix> HfMatrix::find(const safetensors::Checkpoint& checkpoint, const std::string& name,
                                const Shape& shape) {
  DS4_CHECK(shape.rank() == 1 || shape.rank() == 2);
  const TensorInfo* info = checkpoint.find(name);
  if (info == nullptr) {
    return fail(ErrorCode::kNotFound, fmt::format("{}: {} is missing", checkpoint.path(), name));
  }
  const int64_t rows = shape.n_rows(), cols = shape.n_cols();
  HfMatrix matrix(info, rows, cols);
  if (info->type == ElementType::kF8E8M0) {
    return fail(ErrorCode::kUnsupported, fmt::format("{}: type F8_E8M0 is for scales", name));
  }
  if (info->type == ElementType::kI8) {
    if (cols % kHfFp4Group != 0) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("{}: FP4 rows of {} values are not a multiple of 32", name, cols));
    }
    DS4_TRY_VOID(expect_shape(*info, {rows, cols / 2}));
    DS4_TRY(matrix.scale_, find_scale(checkpoint, *info, {rows, cols / kHfFp4Group}));
    return matrix;
  }
  std::vector<int64_t> stored{cols};
  if (shape.rank() == 2) stored.insert(stored.begin(), rows);
  DS4_TRY_VOID(expect_shape(*info, std::move(stored)));
  if (info->type == ElementType::kF8E4M3) {
    const auto tiles = [](int64_t n) { return (n + kHfFp8Tile - 1) / kHfFp8Tile; };
    DS4_TRY(matrix.scale_, find_scale(checkpoint, *info, {tiles(rows), tiles(cols)}));
  }
  return matrix;
}

Result<void> HfMatrix::decode_row(int64_t row, float* dst) const {
  DS4_CHECK(!is_ids());
  Result<void> decoded;
  if (is_fp4()) {
    decoded = decode_hf_row(fp4_view(*info_, *scale_, rows_, cols_), row, dst);
  } else if (info_->type == ElementType::kF8E4M3) {
    decoded = decode_hf_row(fp8_view(*info_, *scale_, rows_, cols_), row, dst);
  } else {
    ds4::decode_row(plain_dtype(info_->type), row_data(row), dst, cols_);
    for (int64_t i = 0; i < cols_; ++i) {
      if (std::isfinite(dst[i])) continue;
      return fail(ErrorCode::kCorrupt, fmt::format("{}: row {} column {}: expected a finite value, "
                                                   "found {}",
                                                   name(), row, i, dst[i]));
    }
  }
  if (!decoded) return fail_within(name(), std::move(decoded.error()));
  return {};
}

Result<void> HfMatrix::encode_row(int64_t row, DType type, const float* importance, float* scratch,
                                  std::byte* dst) const {
  if (type == DType::kMXFP4 && is_fp4()) {
    auto packed = hf_row_to_mxfp4(fp4_view(*info_, *scale_, rows_, cols_), row,
                                  reinterpret_cast<BlockMxfp4*>(dst));
    if (!packed) return fail_within(name(), std::move(packed.error()));
    return {};
  }
  if (type == DType::kBF16 && info_->type == ElementType::kF8E4M3) {
    auto exact = hf_row_to_bf16(fp8_view(*info_, *scale_, rows_, cols_), row,
                                reinterpret_cast<uint16_t*>(dst));
    if (!exact) return fail_within(name(), std::move(exact.error()));
    return {};
  }
  // BF16 to BF16 passes through f32, which is exact both ways.
  DS4_TRY_VOID(decode_row(row, scratch));
  if (type == DType::kF16) {
    for (int64_t i = 0; i < cols_; ++i) {
      if (std::fabs(scratch[i]) < kF16Limit) continue;
      return fail(
          ErrorCode::kUnsupported,
          fmt::format("{}: row {} column {}: {} is beyond the range of F16; write this tensor "
                      "as bf16 or f32",
                      name(), row, i, scratch[i]));
    }
  }
  auto encoded = ds4::encode_row(type, scratch, importance, dst, cols_);
  if (!encoded)
    return fail_within(fmt::format("{} row {}", name(), row), std::move(encoded.error()));
  return {};
}

Result<void> HfMatrix::ids_row(int64_t row, int64_t n_ids, int32_t* dst) const {
  DS4_CHECK(is_ids());
  const int64_t each = safetensors::element_bytes(info_->type);
  for (int64_t i = 0; i < cols_; ++i) {
    int64_t id =
        0;  // little-endian: the low half of an I64 comes first, an I32 is never negative here
    std::memcpy(&id, row_data(row) + i * each, static_cast<size_t>(each));
    if (id < 0 || id >= n_ids) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("{}: row {} column {}: id 0..{} expected, found {}", name(), row, i,
                              n_ids - 1, id));
    }
    dst[i] = static_cast<int32_t>(id);
  }
  return {};
}

}  // namespace ds4
