#pragma once
// Memory for the length of one op, kept from op to op: it grows when an op needs more than any
// before, and reserve() makes sure beforehand that none will. Contents are undefined. Pages that
// nothing writes take no memory.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace ds4 {

class Scratch {
 public:
  void reserve(int64_t bytes) {
    if (bytes <= bytes_) return;
    data_.reset();  // first, so that the old and the new do not stand side by side
    data_ = std::make_unique_for_overwrite<Line[]>(static_cast<size_t>((bytes + 63) / 64));
    bytes_ = bytes;
  }
  // `n` values of T, aligned to 64; valid until the next take() or reserve().
  template <typename T>
  T* take(int64_t n) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 64);
    reserve(n * static_cast<int64_t>(sizeof(T)));
    return reinterpret_cast<T*>(data_.get());
  }
  const std::byte* data() const { return reinterpret_cast<const std::byte*>(data_.get()); }
  int64_t bytes() const { return bytes_; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::unique_ptr<Line[]> data_;
  int64_t bytes_ = 0;
};

}  // namespace ds4
