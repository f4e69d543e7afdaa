// Weights in IQ2_XXS against Q8_K activations, in integers (blocks_of_256-inl.h).
// clang-format off: this order is how Highway compiles the file once for each target.
#include "base/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/dot_iq2_xxs.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>
// clang-format on

#include <array>

#include "backend/cpu/kernels/blocks_of_256-inl.h"
#include "quant/iq2_xxs.h"

#ifndef DS4_BACKEND_CPU_DOT_IQ2_XXS_ONCE
#define DS4_BACKEND_CPU_DOT_IQ2_XXS_ONCE
namespace ds4::cpu {

// Added to IQ2_XXS levels (at most 43 in magnitude), so that they are unsigned.
inline constexpr int kIq2Bias = 43;

// Sign index of an octet as eight bytes, 0xff where the value is negative.
constexpr std::array<uint64_t, 128> make_sign_bytes() {
  std::array<uint64_t, 128> table{};
  for (uint32_t index = 0; index < 128; ++index) {
    for (int i = 0; i < 8; ++i) {
      if ((iq2_xxs_signs(index) >> i & 1u) != 0) table[index] |= uint64_t{0xff} << (8 * i);
    }
  }
  return table;
}
inline constexpr std::array<uint64_t, 128> kSignBytes = make_sign_bytes();

// The eight sign bits of a sign index.
constexpr std::array<uint8_t, 128> make_sign_bits() {
  std::array<uint8_t, 128> table{};
  for (uint32_t index = 0; index < 128; ++index) {
    table[index] = static_cast<uint8_t>(iq2_xxs_signs(index));
  }
  return table;
}
alignas(64) inline constexpr std::array<uint8_t, 128> kSignBits = make_sign_bits();

// Biased level of a digit (bits 0-1) with a sign (bit 2); the other bits of an index do not matter.
constexpr std::array<uint8_t, 64> make_level_table() {
  constexpr int kLevels[4] = {8, 25, 43, 0};
  std::array<uint8_t, 64> table{};
  for (size_t i = 0; i < 64; ++i) {
    const int level = kLevels[i & 3];
    table[i] = static_cast<uint8_t>(kIq2Bias + ((i & 4) != 0 ? -level : level));
  }
  return table;
}
alignas(64) inline constexpr std::array<uint8_t, 64> kLevelTable = make_level_table();

}  // namespace ds4::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace ds4::cpu {
namespace HWY_NAMESPACE {

// Signed levels; what their bias adds to a block sum is taken off at its start.
struct Iq2XxsFormat {
  static constexpr int64_t kBlockBytes = sizeof(BlockIq2Xxs);
  static constexpr int kSubBlocks = kIq2XxsGroups;
  static constexpr int kBias = kIq2Bias;
  static constexpr int kMaxCode = 2 * kIq2Bias;
  static constexpr bool kHasMins = false;
  struct Head {  // scales stand among the codes
    ScaleVec d;
  };
  template <int64_t kPiece>
  using Ahead = FetchGroup<kPiece>;

  static HWY_INLINE void head(Head& out, const Rows& rows, int64_t at) {
    const ScaleVec d = half_to_float<false>(load_dword_of_4<0>(rows, at));
    out.d = hn::Mul(d, hn::Set(ScaleTag(), 0.125f));
  }
  template <bool>
  static HWY_INLINE void add(IntVec* scaled, int, IntVec integers, IntVec scale) {
    scaled[0] = hn::Add(scaled[0], hn::Mul(integers, scale));
  }
  template <bool>
  static HWY_INLINE IntVec total(const IntVec* scaled) {
    return scaled[0];
  }
  // From a group's B: the scale of its 32 values.
  static HWY_INLINE IntVec group_scale(IntVec b) {
    const IntVec nibble = shift_right<28>(b);
    return hn::Add(hn::Add(nibble, nibble), hn::Set(IntTag(), 1));
  }

#if HWY_TARGET <= HWY_AVX3_DL
  // The codebook as 16 digits in two octets a lane: 256 entries of 16 bits in eight vectors, looked
  // up by permutations instead of memory.
  static HWY_INLINE IntVec grid_digits(IntVec index) {
    const hn::Repartition<uint16_t, IntTag> d;
    const auto* table = iq2_xxs::kGridCodes.data();
    const auto i16 = hn::BitCast(d, index);
    const auto look = [&](int part) HWY_ATTR {
      return hn::Vec<decltype(d)>{_mm512_permutex2var_epi16(
          hn::LoadU(d, table + 64 * part).raw, i16.raw, hn::LoadU(d, table + 64 * part + 32).raw)};
    };
    const auto bit6 = hn::TestBit(i16, hn::Set(d, uint16_t{64}));
    const auto bit7 = hn::TestBit(i16, hn::Set(d, uint16_t{128}));
    const auto low = hn::IfThenElse(bit6, look(1), look(0));
    const auto high = hn::IfThenElse(bit6, look(3), look(2));
    return hn::BitCast(IntTag(), hn::IfThenElse(bit7, high, low));
  }

  // Eight bits from each of four bit positions of every lane (a lane is half of a 64-bit word).
  template <int p0, int p1, int p2, int p3>
  static HWY_INLINE IntVec pick_bytes(IntVec v) {
    constexpr uint64_t kLow =
        (p0 & 63) | (p1 & 63) << 8 | (p2 & 63) << 16 | static_cast<uint64_t>(p3 & 63) << 24;
    constexpr uint64_t kHigh = ((p0 + 32) & 63) | ((p1 + 32) & 63) << 8 | ((p2 + 32) & 63) << 16 |
                               static_cast<uint64_t>((p3 + 32) & 63) << 24;
    return IntVec{_mm512_multishift_epi64_epi8(
        _mm512_set1_epi64(static_cast<int64_t>(kLow | kHigh << 32)), v.raw)};
  }

  // Granule `half` of octet `octet`: its digits begin at bit kDigits of `digits`.
  template <int octet, int half, int kDigits>
  static HWY_INLINE IntVec levels(IntVec digits, IntVec signs) {
    constexpr int at = kDigits + 8 * half, s = 8 * octet + 4 * half - 2;  // a sign goes to bit 2
    const IntVec digit = pick_bytes<at, at + 2, at + 4, at + 6>(digits);
    const IntVec sign = pick_bytes<s, s + 1, s + 2, s + 3>(signs);
    const IntVec index = hn::IfVecThenElse(hn::Set(IntTag(), 0x03030303), digit, sign);
    return IntVec{_mm512_permutexvar_epi8(index.raw, _mm512_load_si512(kLevelTable.data()))};
  }

  template <bool, class Visit>
  static HWY_INLINE void codes(const Head&, const Rows& rows, int64_t at, Visit visit) {
    IntVec packed[16];
    load_dwords_16(rows, at + 2, packed);
    for (int b = 0; b < kSubBlocks; ++b) {
      const IntVec index = packed[2 * b];
      const IntVec even = grid_digits(mask_with(index, 0x00ff00ff));                 // octets 0, 2
      const IntVec odd = grid_digits(mask_with(shift_right<8>(index), 0x00ff00ff));  // octets 1, 3
      // Sign indices to bytes, then to eight bits; the lookup ignores the eighth bit of an index.
      const IntVec fields = pick_bytes<0, 7, 14, 21>(packed[2 * b + 1]);
      const IntVec signs{_mm512_permutex2var_epi8(_mm512_load_si512(kSignBits.data()), fields.raw,
                                                  _mm512_load_si512(kSignBits.data() + 64))};
      const IntVec codes[8] = {levels<0, 0, 0>(even, signs),  levels<0, 1, 0>(even, signs),
                               levels<1, 0, 0>(odd, signs),   levels<1, 1, 0>(odd, signs),
                               levels<2, 0, 16>(even, signs), levels<2, 1, 16>(even, signs),
                               levels<3, 0, 16>(odd, signs),  levels<3, 1, 16>(odd, signs)};
      visit(b, codes, group_scale(packed[2 * b + 1]));
    }
  }
#else
  // Row by row through the table of octets, then into lanes.
  static HWY_INLINE void row_levels(const BlockIq2Xxs& block, uint8_t* out) {
    using OctetTag = hn::CappedTag<uint8_t, 16>;
    const OctetTag d;
    for (int b = 0; b < kSubBlocks; ++b) {
      const Iq2XxsGroup group = iq2_xxs_group(block, b);
      for (int g = 0; g < 4; g += 2) {
        const uint64_t grid[2] = {iq2_xxs::kGrid[group.grid_index(g)],
                                  iq2_xxs::kGrid[group.grid_index(g + 1)]};
        const uint64_t signs[2] = {kSignBytes[group.b >> (7 * g) & 127u],
                                   kSignBytes[group.b >> (7 * g + 7) & 127u]};
        const auto negative = hn::LoadU(d, reinterpret_cast<const uint8_t*>(signs));
        const auto level = hn::LoadU(d, reinterpret_cast<const uint8_t*>(grid));
        const auto signed_level = hn::Sub(hn::Xor(level, negative), negative);
        hn::StoreU(hn::Add(signed_level, hn::Set(d, uint8_t{kIq2Bias})), d, out + 32 * b + 8 * g);
      }
    }
  }

  template <bool, class Visit>
  static HWY_INLINE void codes(const Head&, const Rows& rows, int64_t at, Visit visit) {
    alignas(64) uint8_t levels[kL][kIq2XxsElems];
    Rows unpacked;
    for (int r = 0; r < kL; ++r) {
      row_levels(*reinterpret_cast<const BlockIq2Xxs*>(rows.row[r] + at), levels[r]);
      unpacked.row[r] = reinterpret_cast<const std::byte*>(levels[r]);
    }
    IntVec packed[16];
    load_dwords_16(rows, at + 2, packed);
    for (int b = 0; b < kSubBlocks; ++b) {
      IntVec codes[8];
      load_dwords_8(unpacked, 32 * b, codes);
      visit(b, codes, group_scale(packed[2 * b + 1]));
    }
  }
#endif
};

void dot_iq2_xxs(const DotArgs& args) { dot_rows<Q8KFormat<Iq2XxsFormat>>(args); }

}  // namespace HWY_NAMESPACE
}  // namespace ds4::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds4::cpu {

HWY_EXPORT(dot_iq2_xxs);

void add_iq2_xxs_dot(Kernels& kernels) { kernels.dot_iq2_xxs = HWY_DYNAMIC_POINTER(dot_iq2_xxs); }

}  // namespace ds4::cpu
#endif
