#pragma once
// IQ2_XXS: 256 values in 66 bytes (2.0625 bits); octets of magnitudes come from a codebook of 256,
// signs are stored apart. The form of the routed experts' gate and up projections.
//
//   byte 0      2          10                                              66
//        | d    | group 0  | group 1 ...                         group 7   |
//        | f16  | u32 A, B |                                               |
//
//   A   bits 8g..8g+7     codebook index of octet g (values 8g..8g+7 of the group's 32), g = 0..3
//   B   bits 7g..7g+6     signs 0..6 of octet g; sign 7 is their parity, so minus signs are even
//       bits 28..31       scale nibble k of the group
//
//   value = F(d) * (0.5 + k) * 0.25 * {8, 25, 43}[digit] * (-1)^sign
//
// The search below fits the levels 1, 3, 5 while the decoder's are 8, 25, 43 (eighths): the wider
// spacing makes up for the shrinking that rounding to a codebook causes. This is on purpose.
// Source: the IQ2_XXS type of the ggml project (MIT), codebook included; docs/formats/quant.md.
#include <array>
#include <cstdint>

#include "base/scalar.h"
#include "quant/q8_k.h"

namespace ds4 {

inline constexpr int kIq2XxsElems = 256;
inline constexpr int kIq2XxsGroups = 8;
inline constexpr int kIq2XxsGridSize = 256;

struct BlockIq2Xxs {
  uint16_t d;           // f16
  uint8_t payload[64];  // 8 groups of little-endian u32 A, B
};
static_assert(sizeof(BlockIq2Xxs) == 66);

namespace iq2_xxs {

// Codebook entries are listed by how many candidates lie between them. Candidates are all vectors
// of eight digits 0..2 with an even number of 1s, ascending by sum digit_i << 2i; there are 3281.
// The choice itself was made by hand in the ggml project and has no closed form.
inline constexpr uint8_t kGridGaps[kIq2XxsGridSize] = {
    0,  1,  1,  1,  1,  1,  1,  3,  1,  2,  1,  1,  1,   3,  3,  2,  1,  3,  1,  3,  6,  4,
    1,  3,  2,  7,  15, 6,  6,  1,  9,  18, 13, 1,  3,   5,  1,  3,  1,  2,  6,  5,  1,  3,
    6,  3,  1,  2,  6,  7,  10, 1,  5,  12, 1,  9,  15,  9,  3,  2,  1,  3,  6,  2,  1,  3,
    1,  11, 12, 12, 28, 5,  35, 1,  3,  5,  4,  9,  6,   3,  2,  7,  3,  6,  9,  4,  5,  24,
    5,  25, 3,  6,  2,  6,  10, 21, 16, 17, 7,  34, 1,   3,  9,  14, 13, 2,  34, 23, 22, 1,
    3,  11, 8,  4,  1,  25, 4,  24, 1,  40, 1,  3,  9,   7,  20, 14, 10, 48, 12, 6,  24, 63,
    26, 1,  3,  3,  2,  1,  3,  3,  4,  2,  5,  1,  3,   9,  9,  14, 4,  2,  12, 4,  12, 4,
    5,  15, 3,  6,  18, 8,  11, 5,  30, 41, 1,  3,  9,   2,  25, 21, 2,  5,  28, 16, 9,  3,
    2,  3,  1,  18, 3,  12, 13, 23, 35, 40, 1,  12, 37,  19, 21, 5,  3,  16, 30, 30, 39, 3,
    9,  12, 15, 20, 28, 15, 18, 2,  43, 1,  23, 67, 107, 1,  3,  10, 14, 14, 6,  6,  32, 36,
    1,  3,  2,  7,  9,  18, 16, 17, 11, 10, 9,  19, 41,  44, 37, 3,  6,  3,  23, 11, 20, 29,
    25, 10, 5,  44, 90, 22, 73, 17, 11, 15, 37, 48, 132, 24};

// Eight base-3 digits of `index`, lowest first, each in two bits.
constexpr uint16_t spread_digits(int index) {
  unsigned code = 0;
  for (int i = 0; i < 8; ++i, index /= 3) code |= static_cast<unsigned>(index % 3) << (2 * i);
  return static_cast<uint16_t>(code);
}

constexpr bool has_even_ones(uint16_t code) {
  int ones = 0;
  for (int i = 0; i < 8; ++i) ones += (code >> (2 * i) & 3) == 1 ? 1 : 0;
  return ones % 2 == 0;
}

// Counting in base 3 visits the digit vectors in ascending order of their codes.
constexpr std::array<uint16_t, kIq2XxsGridSize> make_grid_codes() {
  std::array<uint16_t, kIq2XxsGridSize> codes{};
  int position = -1;  // among the candidates
  int wanted = 0;
  size_t n = 0;
  for (int index = 0; index < 6561 && n < codes.size(); ++index) {
    const uint16_t code = spread_digits(index);
    if (!has_even_ones(code)) continue;
    ++position;
    if (position != wanted) continue;
    codes[n++] = code;
    if (n < codes.size()) wanted += kGridGaps[n];
  }
  return codes;
}

// Entry n as two-bit digits.
inline constexpr std::array<uint16_t, kIq2XxsGridSize> kGridCodes = make_grid_codes();
static_assert(kGridCodes[1] == 2 && kGridCodes[7] == 32 && kGridCodes[255] == 43268);

constexpr std::array<uint64_t, kIq2XxsGridSize> make_grid() {
  constexpr uint64_t kLevels[3] = {8, 25, 43};
  std::array<uint64_t, kIq2XxsGridSize> grid{};
  for (size_t n = 0; n < grid.size(); ++n) {
    for (int i = 0; i < 8; ++i) grid[n] |= kLevels[kGridCodes[n] >> (2 * i) & 3] << (8 * i);
  }
  return grid;
}

// Entry n as the decoder's levels, one byte a digit, the first digit in the lowest byte.
inline constexpr std::array<uint64_t, kIq2XxsGridSize> kGrid = make_grid();

}  // namespace iq2_xxs

// Eight sign bits of a 7-bit sign index: bit 7 is the parity of the other seven.
DS4_HOST_DEVICE constexpr uint32_t iq2_xxs_signs(uint32_t index) {
  uint32_t parity = index ^ index >> 4;
  parity ^= parity >> 2;
  parity ^= parity >> 1;
  return index | (parity & 1u) << 7;
}

// The pair A, B of group b.
struct Iq2XxsGroup {
  uint32_t a = 0;
  uint32_t b = 0;

  DS4_HOST_DEVICE uint32_t grid_index(int octet) const { return a >> (8 * octet) & 255u; }
  DS4_HOST_DEVICE uint32_t signs(int octet) const { return iq2_xxs_signs(b >> (7 * octet) & 127u); }
  DS4_HOST_DEVICE uint32_t scale() const { return b >> 28; }
};

DS4_HOST_DEVICE inline Iq2XxsGroup iq2_xxs_group(const BlockIq2Xxs& block, int group) {
  const uint8_t* p = block.payload + 8 * group;
  Iq2XxsGroup out;
  for (int i = 0; i < 4; ++i) {
    out.a |= static_cast<uint32_t>(p[i]) << (8 * i);
    out.b |= static_cast<uint32_t>(p[4 + i]) << (8 * i);
  }
  return out;
}

// `grid` is iq2_xxs::kGrid, or a device's copy of it: device code cannot index a host constant.
DS4_HOST_DEVICE inline void decode_block(const BlockIq2Xxs& block, const uint64_t* grid,
                                         float* dst) {
  const float d = f16_to_f32(block.d);
  for (int b = 0; b < kIq2XxsGroups; ++b) {
    const Iq2XxsGroup group = iq2_xxs_group(block, b);
    const float scale = d * (0.5f + static_cast<float>(group.scale())) * 0.25f;
    for (int g = 0; g < 4; ++g) {
      const uint64_t levels = grid[group.grid_index(g)];
      const uint32_t signs = group.signs(g);
      for (int i = 0; i < 8; ++i) {
        const float value = scale * static_cast<float>(levels >> (8 * i) & 255u);
        dst[32 * b + 8 * g + i] = (signs >> i & 1u) != 0 ? -value : value;
      }
    }
  }
}

inline void decode_block(const BlockIq2Xxs& block, float* dst) {
  decode_block(block, iq2_xxs::kGrid.data(), dst);
}

// Sum over groups of (2k+1) * (signed level . activation): at most 8 * 31 * 32 * 43 * 128 < 2^26.
DS4_HOST_DEVICE inline int32_t dot_sum(const BlockIq2Xxs& w, const uint64_t* grid,
                                       const BlockQ8K& a) {
  int32_t total = 0;
  for (int b = 0; b < kIq2XxsGroups; ++b) {
    const Iq2XxsGroup group = iq2_xxs_group(w, b);
    int32_t sum = 0;
    for (int g = 0; g < 4; ++g) {
      const uint64_t levels = grid[group.grid_index(g)];
      const uint32_t signs = group.signs(g);
      for (int i = 0; i < 8; ++i) {
        const int32_t product =
            static_cast<int32_t>(levels >> (8 * i) & 255u) * a.q[32 * b + 8 * g + i];
        sum += (signs >> i & 1u) != 0 ? -product : product;
      }
    }
    total += static_cast<int32_t>(2 * group.scale() + 1) * sum;
  }
  return total;
}

DS4_HOST_DEVICE inline float dot_block(const BlockIq2Xxs& w, const uint64_t* grid,
                                       const BlockQ8K& a) {
  return 0.125f * (a.d * f16_to_f32(w.d) * static_cast<float>(dot_sum(w, grid, a)));
}

inline float dot_block(const BlockIq2Xxs& w, const BlockQ8K& a) {
  return dot_block(w, iq2_xxs::kGrid.data(), a);
}

// One block from 256 finite values; `importance` [256] is required, none of it negative.
// Thread-safe; the first call builds the neighbour lists of the codebook (some ten milliseconds).
void encode_block(const float* x, const float* importance, BlockIq2Xxs* block);

}  // namespace ds4
