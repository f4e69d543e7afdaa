#include "gguf/value.h"

#include <cstring>
#include <limits>

namespace ds4::gguf {
namespace {

// Fields stand at any address, so they are copied out. Hosts are little-endian, as the file is.
template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

std::optional<int64_t> load_int(ValueType type, const std::byte* at) {
  switch (type) {
    case ValueType::kU8:
      return load<uint8_t>(at);
    case ValueType::kI8:
      return load<int8_t>(at);
    case ValueType::kU16:
      return load<uint16_t>(at);
    case ValueType::kI16:
      return load<int16_t>(at);
    case ValueType::kU32:
      return load<uint32_t>(at);
    case ValueType::kI32:
      return load<int32_t>(at);
    case ValueType::kI64:
      return load<int64_t>(at);
    case ValueType::kU64: {
      const uint64_t value = load<uint64_t>(at);
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::optional<double> load_float(ValueType type, const std::byte* at) {
  if (type == ValueType::kF32) return load<float>(at);
  if (type == ValueType::kF64) return load<double>(at);
  const auto integer = load_int(type, at);
  if (!integer) return std::nullopt;
  return static_cast<double>(*integer);
}

}  // namespace

std::string Value::type_name() const {
  std::string name(value_type_name(type_));
  if (const auto a = array()) name.append(" of ").append(value_type_name(a->element));
  return name;
}

std::optional<Value::Array> Value::array() const {
  if (type_ != ValueType::kArray) return std::nullopt;
  return Array{static_cast<ValueType>(load<uint32_t>(payload_.data())),
               static_cast<int64_t>(load<uint64_t>(payload_.data() + 4)), payload_.subspan(12)};
}

std::optional<int64_t> Value::as_int() const { return load_int(type_, payload_.data()); }

std::optional<double> Value::as_float() const { return load_float(type_, payload_.data()); }

std::optional<bool> Value::as_bool() const {
  if (type_ != ValueType::kBool) return std::nullopt;
  return payload_[0] != std::byte{0};
}

std::optional<std::string_view> Value::as_string() const {
  if (type_ != ValueType::kString) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(payload_.data() + 8), payload_.size() - 8);
}

std::optional<std::vector<int64_t>> Value::as_ints() const {
  const auto a = array();
  if (!a || a->element == ValueType::kString || a->element == ValueType::kArray)
    return std::nullopt;
  std::vector<int64_t> values;
  for (int64_t i = 0; i < a->count; ++i) {
    const auto value = load_int(a->element, a->bytes.data() + i * value_bytes(a->element));
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

std::optional<std::vector<double>> Value::as_floats() const {
  const auto a = array();
  if (!a || a->element == ValueType::kString || a->element == ValueType::kArray)
    return std::nullopt;
  std::vector<double> values;
  for (int64_t i = 0; i < a->count; ++i) {
    const auto value = load_float(a->element, a->bytes.data() + i * value_bytes(a->element));
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

std::optional<std::vector<std::string_view>> Value::as_strings() const {
  const auto a = array();
  if (!a || a->element != ValueType::kString) return std::nullopt;
  std::vector<std::string_view> values;
  const std::byte* at = a->bytes.data();
  for (int64_t i = 0; i < a->count; ++i) {
    const auto length = static_cast<size_t>(load<uint64_t>(at));
    values.emplace_back(reinterpret_cast<const char*>(at + 8), length);
    at += 8 + length;
  }
  return values;
}

}  // namespace ds4::gguf
