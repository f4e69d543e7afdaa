#pragma once
// One metadata value as it lies in the file, with getters that convert. Exporters write the same
// key with different integer widths, so an integer getter takes any integer type that holds the
// value.
//
// A Value is a view: it lives as long as the bytes it was parsed from. Thread-safe.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/format.h"

namespace ds4::gguf {

class Value {
 public:
  Value() = default;
  // `payload` is everything after the u32 value type, already checked by the parser: lengths fit,
  // element types are known.
  Value(ValueType type, std::span<const std::byte> payload) : type_(type), payload_(payload) {}

  ValueType type() const { return type_; }
  std::span<const std::byte> payload() const { return payload_; }
  // "u32", "array of string", ...
  std::string type_name() const;

  // Empty when the value is of another kind or does not fit. Integers: any integer type, not bool.
  std::optional<int64_t> as_int() const;
  // f32, f64 and integers.
  std::optional<double> as_float() const;
  // bool only.
  std::optional<bool> as_bool() const;
  std::optional<std::string_view> as_string() const;

  // Arrays of such values; every element must convert.
  std::optional<std::vector<int64_t>> as_ints() const;
  std::optional<std::vector<double>> as_floats() const;
  std::optional<std::vector<std::string_view>> as_strings() const;

 private:
  struct Array {
    ValueType element = ValueType::kU8;
    int64_t count = 0;
    std::span<const std::byte> bytes;
  };
  // The parts of an array, empty for anything else.
  std::optional<Array> array() const;

  ValueType type_ = ValueType::kU8;
  std::span<const std::byte> payload_;
};

}  // namespace ds4::gguf
