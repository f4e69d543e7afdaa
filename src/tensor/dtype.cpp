#include "tensor/dtype.h"

#include "base/check.h"

namespace ds4 {

const DTypeInfo& dtype_info(DType type) {
  static constexpr DTypeInfo kF32{"F32", 1, 4}, kF16{"F16", 1, 2}, kBF16{"BF16", 1, 2},
      kI32{"I32", 1, 4}, kI64{"I64", 1, 8}, kQ8_0{"Q8_0", 32, 34}, kQ2_K{"Q2_K", 256, 84},
      kQ4_K{"Q4_K", 256, 144}, kIQ2_XXS{"IQ2_XXS", 256, 66}, kMXFP4{"MXFP4", 32, 17};
  switch (type) {
    case DType::kF32:
      return kF32;
    case DType::kF16:
      return kF16;
    case DType::kBF16:
      return kBF16;
    case DType::kI32:
      return kI32;
    case DType::kI64:
      return kI64;
    case DType::kQ8_0:
      return kQ8_0;
    case DType::kQ2_K:
      return kQ2_K;
    case DType::kQ4_K:
      return kQ4_K;
    case DType::kIQ2_XXS:
      return kIQ2_XXS;
    case DType::kMXFP4:
      return kMXFP4;
  }
  check_failed("a DType enumerator", __FILE__, __LINE__);
}

int64_t row_bytes(DType type, int64_t n) {
  const DTypeInfo& info = dtype_info(type);
  DS4_CHECK(n >= 0 && n % info.block_elems == 0);
  return n / info.block_elems * info.block_bytes;
}

}  // namespace ds4
