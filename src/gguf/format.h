#pragma once
// The numbers of the GGUF container, version 3, little-endian (docs/formats/gguf.md).
//
//   "GGUF" | u32 version | u64 n_tensors | u64 n_keys          24 bytes
//   n_keys    x  key string | u32 value type | value
//   n_tensors x  name string | u32 n_dims | n_dims x u64 | u32 tensor type | u64 offset
//   zeros up to a multiple of the alignment; offsets count from here
//   tensor data, each tensor padded with zeros to the alignment, the last one too
//
// A string is a u64 length and its bytes; an array is a u32 element type, a u64 count, the
// elements.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tensor/dtype.h"

namespace ds4::gguf {

inline constexpr uint32_t kMagic = 0x46554747;  // "GGUF" read as a little-endian u32
inline constexpr uint32_t kVersion = 3;
inline constexpr int64_t kHeaderBytes = 24;
inline constexpr int64_t kDefaultAlignment = 32;
inline constexpr int kMaxArrayDepth = 8;
inline constexpr int kMaxDims = 4;
// The shortest record that can exist: a one-letter key with a one-byte value, and a one-letter
// tensor of one dimension. Counts in the header are held against these before anything is read.
inline constexpr int64_t kMinKeyBytes = 8 + 1 + 4 + 1;
inline constexpr int64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

enum class ValueType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
inline constexpr uint32_t kMaxValueType = 12;

// Bytes of one value, 0 for strings and arrays, whose length stands in the file.
int64_t value_bytes(ValueType type);
// "u32", "string", ...
std::string_view value_type_name(ValueType type);

// Name and block geometry of a tensor type id, also of types that can only be sized and skipped.
// Empty for ids this reader cannot size; such a tensor is an error only when somebody wants it. Ids
// 40 and 41 are left out on purpose: private formats use them with other geometries.
std::optional<DTypeInfo> type_geometry(uint32_t type_id);
// "Q6_K", or "type 77" for an id without a name.
std::string type_name(uint32_t type_id);
// The DType of an id, empty for a type the engine does not compute with.
std::optional<DType> engine_dtype(uint32_t type_id);

}  // namespace ds4::gguf
