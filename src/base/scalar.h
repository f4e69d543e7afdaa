#pragma once
// The small number formats, one value at a time: IEEE binary16, bfloat16, OCP FP8 E4M3 ("fn", no
// infinities), FP4 E2M1 and the power-of-two scale E8M0. Host and device code share them.
// Source: IEEE 754, the OCP microscaling formats; codes as in docs/formats/quant.md.
#include <bit>
#include <cmath>
#include <cstdint>

#if defined(__CUDACC__)
#define DS4_HOST_DEVICE __host__ __device__
#else
#define DS4_HOST_DEVICE
#endif

namespace ds4 {

// --- binary16 -----------------------------------------------------------------------------------

// Exact. Masks instead of branches, so that a loop over weights vectorises.
DS4_HOST_DEVICE inline float f16_to_f32(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const int32_t magnitude = h & 0x7fff;
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
  const uint32_t normal = (static_cast<uint32_t>(magnitude) << 13) + (112u << 23);
  const uint32_t is_subnormal = static_cast<uint32_t>(-static_cast<int32_t>(magnitude < 0x400));
  const uint32_t is_special = static_cast<uint32_t>(-static_cast<int32_t>(magnitude >= 0x7c00));
  const uint32_t finite =
      (std::bit_cast<uint32_t>(subnormal) & is_subnormal) | (normal & ~is_subnormal);
  return std::bit_cast<float>(sign | (finite + (is_special & 112u << 23)));  // infinity and NaN
}

// Nearest, ties to even; subnormals kept, overflow to infinity, NaN to a quiet NaN.
DS4_HOST_DEVICE inline uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // >= 65520
  if (magnitude < 0x38800000u) {  // below 2^-14: the result is subnormal, in units of 2^-24
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p24f;
    // Adding 2^23 leaves the nearest integer (ties to even) in the low mantissa bits.
    const uint32_t rounded = std::bit_cast<uint32_t>(scaled + 0x1p23f) & 0x7fffffu;
    return static_cast<uint16_t>(sign | rounded);
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

// --- bfloat16 -----------------------------------------------------------------------------------

DS4_HOST_DEVICE inline float bf16_to_f32(uint16_t b) {
  return std::bit_cast<float>(static_cast<uint32_t>(b) << 16);
}

// Nearest, ties to even; NaN keeps its top half and becomes quiet.
DS4_HOST_DEVICE inline uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// --- E8M0 ---------------------------------------------------------------------------------------

// 2^(code-127); code 0 is the subnormal 2^-127, code 255 is NaN.
DS4_HOST_DEVICE inline float e8m0_to_f32(uint8_t code) {
  if (code == 0) return std::bit_cast<float>(0x00400000u);
  if (code == 255) return std::bit_cast<float>(0x7fc00000u);
  return std::bit_cast<float>(static_cast<uint32_t>(code) << 23);
}

// 2^e for -126 <= e <= 127.
DS4_HOST_DEVICE inline float exp2_int(int e) {
  return std::bit_cast<float>(static_cast<uint32_t>(e + 127) << 23);
}

// Smallest e with 2^e >= x, read from the bits of a positive normal x (never through log2f, which
// can return e-1 just above a power of two).
DS4_HOST_DEVICE inline int ceil_log2(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return static_cast<int>(bits >> 23) - 127 + ((bits & 0x7fffffu) != 0 ? 1 : 0);
}

// --- FP8 E4M3 -----------------------------------------------------------------------------------

// Exact; codes 0x7f and 0xff are NaN.
DS4_HOST_DEVICE inline float e4m3_to_f32(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80u) << 24;
  const uint32_t exponent = (code >> 3) & 15u;
  const uint32_t mantissa = code & 7u;
  if (exponent == 15 && mantissa == 7) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-9f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  return std::bit_cast<float>(sign | ((exponent + 120) << 23) | (mantissa << 20));
}

// Nearest, ties to the even mantissa code; |value| is clamped to 448 first. NaN gives 0x7f.
DS4_HOST_DEVICE inline uint8_t f32_to_e4m3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint8_t sign = static_cast<uint8_t>((bits >> 24) & 0x80u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint8_t>(sign | 0x7fu);
  if (magnitude >= 0x43e00000u) return static_cast<uint8_t>(sign | 0x7eu);  // >= 448
  if (magnitude < 0x3c800000u) {  // below 2^-6: subnormal, in units of 2^-9
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p9f;
    const uint32_t rounded = std::bit_cast<uint32_t>(scaled + 0x1p23f) & 0xfu;
    return static_cast<uint8_t>(sign | rounded);
  }
  const uint32_t rounded = magnitude + 0x7ffffu + ((magnitude >> 20) & 1u);
  return static_cast<uint8_t>(sign | ((rounded - 0x3c000000u) >> 20));
}

// --- FP4 E2M1 -----------------------------------------------------------------------------------

// Magnitudes of codes 0..7; bit 3 of a code is the sign.
inline constexpr float kE2m1Magnitude[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};

DS4_HOST_DEVICE inline float e2m1_to_f32(uint8_t code) {
  // From the bits, so that device code needs no table and host loops vectorise: codes 2..7 are the
  // exponent and mantissa fields of 1.m * 2^(e-1); 1 is 2^-1 without its mantissa bit; 0 is zero.
  const uint32_t c = code & 7u;
  const uint32_t is_one = static_cast<uint32_t>(-static_cast<int32_t>(c == 1u));
  const uint32_t is_some = static_cast<uint32_t>(-static_cast<int32_t>(c != 0u));
  const uint32_t magnitude = ((c << 22) + (126u << 23) - (is_one & 1u << 22)) & is_some;
  return std::bit_cast<float>(magnitude | static_cast<uint32_t>(code & 8u) << 28);
}

// Nearest, ties to the even code; |value| above 6 gives 6.
DS4_HOST_DEVICE inline uint8_t f32_to_e2m1(float value) {
  const float a = std::fabs(value);
  uint8_t code = 0;
  if (a > 0.25f) code = 1;
  if (a >= 0.75f) code = 2;
  if (a > 1.25f) code = 3;
  if (a >= 1.75f) code = 4;
  if (a > 2.5f) code = 5;
  if (a >= 3.5f) code = 6;
  if (a > 5.0f) code = 7;
  return static_cast<uint8_t>(code | (std::signbit(value) ? 8u : 0u));
}

}  // namespace ds4
