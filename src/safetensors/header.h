#pragma once
// The header of one safetensors file: which tensors it has, of what type and shape, and where.
//
//   u64 n | n bytes of JSON {"NAME": {"dtype": "BF16", "shape": [out, in], "data_offsets": [b, e]},
//   ...} | data; offsets count from its first byte
//
// The JSON is read as events, without building a tree, so a hostile header costs no more memory
// than the tensors it names, and nesting beyond what the format has ends the parse at once.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ds4::safetensors {

// Element types of the official checkpoints. Values of kI8 weights are two FP4 codes each.
enum class ElementType { kF8E4M3, kF8E8M0, kI8, kBF16, kF16, kF32, kI32, kI64 };

// "F8_E4M3", "BF16", ... as in the file.
std::string_view element_name(ElementType type);
int64_t element_bytes(ElementType type);

struct TensorInfo {
  std::string name;
  ElementType type = ElementType::kF32;
  std::vector<int64_t> shape;       // outermost first; empty for a single value
  const std::byte* data = nullptr;  // at any address: the header before it has any length
  int64_t bytes = 0;

  int64_t n_elements() const { return bytes / element_bytes(type); }
  // "[256, 4096]"
  std::string shape_text() const;
};

inline constexpr int64_t kMaxHeaderBytes = 100 << 20;

// Parses a whole file's bytes, which must outlive the result; `file` stands for the path in
// messages. Checks that ranges lie inside the data, agree with shape and type, and do not overlap.
// Errors: kCorrupt with the tensor's name or the byte; kUnsupported for another element type.
Result<std::vector<TensorInfo>> parse_file(std::span<const std::byte> bytes, std::string_view file);

}  // namespace ds4::safetensors
