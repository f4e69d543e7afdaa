#pragma once
// Rounding to small integers and block maxima, shared by the encoders. Every helper is a handful of
// branch-free operations, so the loops around it vectorise without -ffast-math.
#include <bit>
#include <cmath>
#include <cstdint>

#include "base/scalar.h"

namespace ds4 {

// Bounds of round_even(): beyond 2^22 the trick of round_even_small() runs out of mantissa bits.
inline constexpr int kRoundEvenMax = 0x3fffff;

// Nearest integer, ties to even, of a value known to lie within +-2^22: no compare, so a loop over
// it vectorises even for SSE2. 1.5 * 2^23 has an ulp of 1: the addition rounds, and the integer is
// left in the low bits.
DS4_HOST_DEVICE inline int round_even_small(float value) {
  constexpr float kMagic = 12582912.0f;
  return static_cast<int32_t>(std::bit_cast<uint32_t>(value + kMagic) -
                              std::bit_cast<uint32_t>(kMagic));
}

// Nearest integer, ties to even, clamped to [lo, hi]; NaN gives lo. Clamping first gives the same
// integer as clamping last because the bounds are integers, and it keeps wild values defined.
DS4_HOST_DEVICE inline int round_even(float value, int lo, int hi) {
  const float flo = static_cast<float>(lo);
  const float fhi = static_cast<float>(hi);
  return round_even_small(value > flo ? (value < fhi ? value : fhi) : flo);
}

// Nearest integer, ties away from zero, for |value| < 2^22, clamped to [lo, hi]; NaN gives lo.
// Adding the float below 0.5 instead of 0.5 keeps 0.49999997 from becoming 1.
DS4_HOST_DEVICE inline int round_away(float value, int lo, int hi) {
  const float flo = static_cast<float>(lo);
  const float fhi = static_cast<float>(hi);
  const float clamped = value > flo ? (value < fhi ? value : fhi) : flo;
  return static_cast<int>(clamped + std::copysign(0x1.fffffep-2f, clamped));
}

// max |x[i]|, or NaN when any value is NaN: the maximum is taken over bit patterns, where every NaN
// is above infinity. Callers rely on that to let a NaN through instead of hiding it in a code.
DS4_HOST_DEVICE inline float abs_max(const float* x, int64_t n) {
  int32_t top = 0;  // signed, because SSE2 compares no unsigned integers
  for (int64_t i = 0; i < n; ++i) {
    const int32_t magnitude = std::bit_cast<int32_t>(x[i]) & 0x7fffffff;
    top = magnitude > top ? magnitude : top;
  }
  return std::bit_cast<float>(top);
}

}  // namespace ds4
