#include "gguf/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ds4::gguf {
namespace {

struct KnownType {
  uint32_t id;
  DTypeInfo info;
};

// Types outside DType, so that a file with unrelated tensors can still be laid out.
constexpr std::array kSkippable{
    KnownType{2, {"Q4_0", 32, 18}},      KnownType{3, {"Q4_1", 32, 20}},
    KnownType{6, {"Q5_0", 32, 22}},      KnownType{7, {"Q5_1", 32, 24}},
    KnownType{9, {"Q8_1", 32, 36}},      KnownType{11, {"Q3_K", 256, 110}},
    KnownType{13, {"Q5_K", 256, 176}},   KnownType{14, {"Q6_K", 256, 210}},
    KnownType{15, {"Q8_K", 256, 292}},   KnownType{17, {"IQ2_XS", 256, 74}},
    KnownType{18, {"IQ3_XXS", 256, 98}}, KnownType{19, {"IQ1_S", 256, 50}},
    KnownType{20, {"IQ4_NL", 32, 18}},   KnownType{21, {"IQ3_S", 256, 110}},
    KnownType{22, {"IQ2_S", 256, 82}},   KnownType{23, {"IQ4_XS", 256, 136}},
    KnownType{24, {"I8", 1, 1}},         KnownType{25, {"I16", 1, 2}},
    KnownType{28, {"F64", 1, 8}},        KnownType{29, {"IQ1_M", 256, 56}},
    KnownType{34, {"TQ1_0", 256, 54}},   KnownType{35, {"TQ2_0", 256, 66}},
};

constexpr std::array kEngineTypes{DType::kF32,  DType::kF16,     DType::kQ8_0, DType::kQ2_K,
                                  DType::kQ4_K, DType::kIQ2_XXS, DType::kI32,  DType::kI64,
                                  DType::kBF16, DType::kMXFP4};

}  // namespace

int64_t value_bytes(ValueType type) {
  static constexpr std::array<int64_t, kMaxValueType + 1> kBytes{1, 1, 2, 2, 4, 4, 4,
                                                                 1, 0, 0, 8, 8, 8};
  return kBytes[static_cast<size_t>(type)];
}

std::string_view value_type_name(ValueType type) {
  static constexpr std::array<std::string_view, kMaxValueType + 1> kNames{
      "u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
      "bool", "string", "array", "u64", "i64", "f64"};
  return kNames[static_cast<size_t>(type)];
}

std::optional<DType> engine_dtype(uint32_t type_id) {
  const auto* found = std::find_if(kEngineTypes.begin(), kEngineTypes.end(),
                                   [&](DType t) { return static_cast<uint32_t>(t) == type_id; });
  if (found == kEngineTypes.end()) return std::nullopt;
  return *found;
}

std::optional<DTypeInfo> type_geometry(uint32_t type_id) {
  if (const auto dtype = engine_dtype(type_id)) return dtype_info(*dtype);
  const auto* found = std::find_if(kSkippable.begin(), kSkippable.end(),
                                   [&](const KnownType& t) { return t.id == type_id; });
  if (found == kSkippable.end()) return std::nullopt;
  return found->info;
}

std::string type_name(uint32_t type_id) {
  if (const auto info = type_geometry(type_id)) return std::string(info->name);
  return fmt::format("type {}", type_id);
}

}  // namespace ds4::gguf
