#pragma once
// The bytes a fuzzer gives, read front to back. Beyond the end everything is zero, so that every
// input means something and a shorter one means nearly the same.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ds4::fuzz {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}
  explicit Input(std::string_view bytes) : rest_(bytes) {}

  bool empty() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

  // A number as it lies in memory.
  template <typename T>
  T take() {
    std::array<char, sizeof(T)> raw{};
    for (char& byte : raw) {
      const std::string_view next = take_bytes(1);
      if (!next.empty()) byte = next[0];
    }
    return std::bit_cast<T>(raw);
  }

  std::string_view take_bytes(size_t n) {
    const std::string_view bytes = rest_.substr(0, std::min(n, rest_.size()));
    rest_.remove_prefix(bytes.size());
    return bytes;
  }

 private:
  std::string_view rest_;
};

}  // namespace ds4::fuzz
