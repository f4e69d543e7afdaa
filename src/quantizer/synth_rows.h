#pragma once
// Rows of random weights, written directly in the form a file stores: codes come from a random
// generator and scales from the spread that is asked for, so no float is encoded and a thread fills
// about as fast as it can write.
//
// A row's bytes follow from its key alone. Every value is finite, every block has a scale above
// zero, the mean is zero, and what an encoder never writes (Q8_0's code -128) does not occur.
// Immutable; thread-safe.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tensor/dtype.h"

namespace ds4 {

// SplitMix64: 64 random bits for a number. Source: Steele, Lea, Flood, "Fast splittable
// pseudorandom number generators", 2014.
constexpr uint64_t mix64(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

// The numbers of one row, counted from its key.
class SynthBits {
 public:
  constexpr explicit SynthBits(uint64_t key) : counter_(mix64(key)) {}
  constexpr uint64_t next() {
    counter_ += 0x9e3779b97f4a7c15u;  // 2^64 over the golden ratio
    return mix64(counter_);
  }
  // Uniform in [0, n), to 2^-32.
  constexpr uint32_t below(uint32_t n) { return static_cast<uint32_t>((next() >> 32) * n >> 32); }

 private:
  uint64_t counter_;
};

// Key of a tensor by its name: a slice has the weights of the whole model's first layers.
constexpr uint64_t tensor_key(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return mix64(mix64(seed) ^ hash);
}

constexpr uint64_t row_key(uint64_t tensor, int64_t row) {
  return tensor ^ mix64(static_cast<uint64_t>(row) + 1);
}

class SynthRows {
 public:
  // Rows of `type` whose decoded values have the standard deviation `deviation`, within 2 %. A
  // floating type of the engine, and a deviation that it can hold (checked).
  SynthRows(DType type, double deviation);

  // Writes row_bytes(type, n) bytes; n is a multiple of the type's block (checked).
  void fill(uint64_t key, int64_t n, std::byte* dst) const;

 private:
  void prepare_plain(double deviation);
  void prepare_scales(double spread_of_one, double min_ratio);
  void prepare_mxfp4(double deviation);

  DType type_;
  // Of the block formats: f16 scales around the one that gives the deviation, and for the K formats
  // the scale of the minima that centres their codes.
  std::array<uint16_t, 256> d_{};
  std::array<uint16_t, 256> dmin_{};
  // Of the plain types: the value for each sum of four random bytes, a bell of 1021 steps.
  static constexpr int kBellValues = 4 * 255 + 1;
  std::array<float, kBellValues> bell_f32_{};
  std::array<uint16_t, kBellValues> bell_16_{};
  // Of MXFP4: the smaller scale, and how many blocks of 256 take the next one.
  uint8_t exponent_ = 0;
  uint32_t n_larger_ = 0;
};

}  // namespace ds4
