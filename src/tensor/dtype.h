#pragma once
// Element types with their block geometry. The numeric values are the GGUF type ids, so a file's id
// needs no translation; a type that GGUF knows but this engine cannot compute with is not listed.
#include <cstdint>
#include <string_view>

namespace ds4 {

enum class DType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ4_K = 12,
  kIQ2_XXS = 16,
  kI32 = 26,
  kI64 = 27,
  kBF16 = 30,
  kMXFP4 = 39,
};

// How a row of a type is laid out: `block_elems` consecutive values take `block_bytes` bytes.
struct DTypeInfo {
  std::string_view name;  // as in GGUF: "F32", "Q8_0", ...
  int64_t block_elems = 0;
  int64_t block_bytes = 0;
};

// Geometry of `type`; every enumerator has one.
const DTypeInfo& dtype_info(DType type);

inline std::string_view dtype_name(DType type) { return dtype_info(type).name; }

// Bytes of a row of `n` values; `n` must be a multiple of the block size (checked).
int64_t row_bytes(DType type, int64_t n);

}  // namespace ds4
