// Weights in blocks of 256 (Q4_K, Q2_K, IQ2_XXS) against Q8_K activations, in integers
// (panel-inl.h).
//
// The packed codes of a group are brought into lanes first, four bytes of every row to a vector,
// and unpacked there: shifts and masks then serve 16 rows at once, and scales and minima stand in
// their rows' lanes as well. Per block, exact in i32 like dot_sums() and dot_sum():
//   scaled = sum_j scale[j] sum_i codes[j, i] q[j, i],   mins = sum_j min[j] sums[j]
// clang-format off: this order is how Highway compiles the file once for each target.
#include "base/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/dot_q8_k.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>
// clang-format on

#include <array>

#include "backend/cpu/kernels/block_rows-inl.h"
#include "quant/iq2_xxs.h"
#include "quant/q2_k.h"
#include "quant/q4_k.h"

#ifndef DS4_BACKEND_CPU_DOT_Q8_K_ONCE
#define DS4_BACKEND_CPU_DOT_Q8_K_ONCE
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

// --- formats: scales and codes of one block of every row ---------------------------------------

// Scales of sub-blocks by lane; mins in pairs of 16 bits, as ActivationGroup's pairs have their
// sums.
template <int kSubBlocks, int kMinPairs>
struct BlockScales {
  alignas(64) int32_t scale[kSubBlocks * kL];
  alignas(64) int32_t min_pairs[(kMinPairs > 0 ? kMinPairs : 1) * kL];
  alignas(64) float d[kL];
  alignas(64) float dmin[kL];

  HWY_INLINE IntVec get(int j) const { return hn::Load(IntTag(), scale + j * kL); }
  HWY_INLINE void set(int32_t* where, int i, IntVec v) { hn::Store(v, IntTag(), where + i * kL); }
  // Scales first .. first + 3 from the bytes of v.
  HWY_INLINE void set_scales(int first, IntVec v) {
    set(scale, first, byte_of<0>(v));
    set(scale, first + 1, byte_of<1>(v));
    set(scale, first + 2, byte_of<2>(v));
    set(scale, first + 3, byte_of<3>(v));
  }
  // Two pairs from four bytes: (0, 2) and (1, 3).
  HWY_INLINE void set_mins(int first_pair, IntVec v) {
    set(min_pairs, first_pair, mask_with(v, 0x00ff00ff));
    set(min_pairs, first_pair + 1, mask_with(shift_right<8>(v), 0x00ff00ff));
  }
};

struct Q4KFormat {
  static constexpr int64_t kBlockBytes = sizeof(BlockQ4K);
  static constexpr int kSubBlocks = kQ4KSubBlocks;
  static constexpr int kMinPairs = 4;
  static constexpr int kBias = 0;
  static constexpr int kMaxCode = 15;
  using Scales = BlockScales<kSubBlocks, kMinPairs>;

  static HWY_INLINE const int16_t* min_sums(const ActivationGroup& x) { return x.pairs32; }

  static HWY_INLINE void scales(Scales& out, const Rows& rows, int64_t at) {
    IntVec head[4];  // d and dmin, then the twelve bytes of scales
    load_dwords_4(rows, at, head);
    hn::Store(half_to_float<false>(head[0]), ScaleTag(), out.d);
    hn::Store(half_to_float<true>(head[0]), ScaleTag(), out.dmin);
    const auto upper = [&](IntVec v) HWY_ATTR { return mask_with(shift_right<2>(v), 0x30303030); };
    out.set_scales(0, mask_with(head[1], 0x3f3f3f3f));
    out.set_scales(4, hn::Or(bits_of<0, 4>(head[3]), upper(head[1])));
    out.set_mins(0, mask_with(head[2], 0x3f3f3f3f));
    out.set_mins(2, hn::Or(bits_of<4, 4>(head[3]), upper(head[2])));
  }

  // visit(sub-block, its granules, its scale) for every sub-block.
  template <class Visit>
  static HWY_INLINE void codes(const Scales& scales, const Rows& rows, int64_t at, Visit visit) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      IntVec packed[16], codes[8];
      load_dwords_16(rows, at + 16 + 64 * half, packed);
#pragma GCC unroll 2
      for (int g = 0; g < 2; ++g) {
        for (int i = 0; i < 8; ++i) codes[i] = bits_of<0, 4>(packed[8 * g + i]);
        visit(4 * half + 2 * g, codes, scales.get(4 * half + 2 * g));
        for (int i = 0; i < 8; ++i) codes[i] = bits_of<4, 4>(packed[8 * g + i]);
        visit(4 * half + 2 * g + 1, codes, scales.get(4 * half + 2 * g + 1));
      }
    }
  }
};

struct Q2KFormat {
  static constexpr int64_t kBlockBytes = sizeof(BlockQ2K);
  static constexpr int kSubBlocks = kQ2KSubBlocks;
  static constexpr int kMinPairs = 8;
  static constexpr int kBias = 0;
  static constexpr int kMaxCode = 3;
  using Scales = BlockScales<kSubBlocks, kMinPairs>;

  static HWY_INLINE const int16_t* min_sums(const ActivationGroup& x) { return x.pairs16; }

  static HWY_INLINE void scales(Scales& out, const Rows& rows, int64_t at) {
    IntVec packed[4];
    load_dwords_4(rows, at, packed);
    for (int i = 0; i < 4; ++i) {
      out.set_scales(4 * i, bits_of<0, 4>(packed[i]));
      out.set_mins(2 * i, bits_of<4, 4>(packed[i]));
    }
    const IntVec halves = load_dword_of_4<3>(rows, at + 68);
    hn::Store(half_to_float<false>(halves), ScaleTag(), out.d);
    hn::Store(half_to_float<true>(halves), ScaleTag(), out.dmin);
  }

  template <class Visit>
  static HWY_INLINE void codes(const Scales& scales, const Rows& rows, int64_t at, Visit visit) {
    IntVec packed[16], codes[4];
    load_dwords_16(rows, at + 16, packed);
#pragma GCC unroll 4
    for (int b = 0; b < 4; ++b) {  // 16 bytes: half b / 2, left or right 16 of its 32
      const int first = 8 * (b / 2) + b % 2;
      for (int i = 0; i < 4; ++i) codes[i] = bits_of<0, 2>(packed[4 * b + i]);
      visit(first, codes, scales.get(first));
      for (int i = 0; i < 4; ++i) codes[i] = bits_of<2, 2>(packed[4 * b + i]);
      visit(first + 2, codes, scales.get(first + 2));
      for (int i = 0; i < 4; ++i) codes[i] = bits_of<4, 2>(packed[4 * b + i]);
      visit(first + 4, codes, scales.get(first + 4));
      for (int i = 0; i < 4; ++i) codes[i] = bits_of<6, 2>(packed[4 * b + i]);
      visit(first + 6, codes, scales.get(first + 6));
    }
  }
};

// Signed levels; what their bias adds to a block sum is taken off at its start.
struct Iq2XxsFormat {
  static constexpr int64_t kBlockBytes = sizeof(BlockIq2Xxs);
  static constexpr int kSubBlocks = kIq2XxsGroups;
  static constexpr int kMinPairs = 0;
  static constexpr int kBias = kIq2Bias;
  static constexpr int kMaxCode = 2 * kIq2Bias;
  using Scales = BlockScales<kSubBlocks, kMinPairs>;

  static HWY_INLINE void scales(Scales& out, const Rows& rows, int64_t at) {
    const ScaleVec d = half_to_float<false>(load_dword_of_4<0>(rows, at));
    hn::Store(hn::Mul(d, hn::Set(ScaleTag(), 0.125f)), ScaleTag(), out.d);
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

  template <class Visit>
  static HWY_INLINE void codes(const Scales&, const Rows& rows, int64_t at, Visit visit) {
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

  template <class Visit>
  static HWY_INLINE void codes(const Scales&, const Rows& rows, int64_t at, Visit visit) {
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

// --- the dot product they share -----------------------------------------------------------------

template <class Blocks>
struct Q8KFormat {
  static constexpr int kSubBlocks = Blocks::kSubBlocks;
  static constexpr int kGranules = 64 / kSubBlocks;  // of a sub-block
  static constexpr int kSubElems = 4 * kGranules;

  struct Panel {
    typename Blocks::Scales scales;
    alignas(64) int32_t codes[64 * kL];
  };

  static HWY_INLINE IntVec start(const ActivationGroup& x, int j) {
    if constexpr (Blocks::kBias == 0) {
      return hn::Zero(IntTag());
    } else {
      static_assert(kSubBlocks == 8);
      return hn::Set(IntTag(), -Blocks::kBias * x.sums[j]);
    }
  }

  static HWY_INLINE ScaleVec finish(ScaleVec sum, const typename Blocks::Scales& scales,
                                    const ActivationGroup& x, IntVec scaled) {
    const ScaleTag d;
    const ScaleVec x_scale = hn::Set(d, x.d[0]);
    sum = hn::MulAdd(hn::Mul(hn::Load(d, scales.d), x_scale), hn::ConvertTo(d, scaled), sum);
    if constexpr (Blocks::kMinPairs > 0) {
      IntVec mins = hn::Zero(IntTag());
      for (int k = 0; k < Blocks::kMinPairs; ++k) {
        mins = add_pair_products(mins, hn::Load(IntTag(), scales.min_pairs + k * kL),
                                 broadcast(Blocks::min_sums(x) + 2 * k));
      }
      const ScaleVec scale = hn::Mul(hn::Load(d, scales.dmin), x_scale);
      sum = hn::NegMulAdd(scale, hn::ConvertTo(d, mins), sum);
    }
    return sum;
  }

  static HWY_INLINE void build(Panel& panel, const Rows& rows, int64_t g, int64_t) {
    const int64_t at = g * Blocks::kBlockBytes;
    Blocks::scales(panel.scales, rows, at);
    Blocks::codes(panel.scales, rows, at, [&](int j, const IntVec* codes, IntVec scale) HWY_ATTR {
      if constexpr (Blocks::kMinPairs == 0) panel.scales.set(panel.scales.scale, j, scale);
      for (int i = 0; i < kGranules; ++i) {
        hn::Store(codes[i], IntTag(), panel.codes + (kGranules * j + i) * kL);
      }
    });
  }

  template <int kX>
  static HWY_INLINE void multiply(ScaleVec (&sum)[kX], const Panel& panel,
                                  const ActivationGroup* const (&x)[kX]) {
    IntVec scaled[kX];
    for (int i = 0; i < kX; ++i) scaled[i] = hn::Zero(IntTag());
    for (int j = 0; j < kSubBlocks; ++j) {
      IntVec integers[kX];
      for (int i = 0; i < kX; ++i) integers[i] = start(*x[i], j);
      for (int g = 0; g < kGranules; ++g) {
        const IntVec codes = hn::Load(IntTag(), panel.codes + (kGranules * j + g) * kL);
        for (int i = 0; i < kX; ++i) {
          const IntVec q = broadcast(x[i]->q + kSubElems * j + 4 * g);
          integers[i] = add_products<Blocks::kMaxCode>(integers[i], codes, q);
        }
      }
      const IntVec scale = hn::Load(IntTag(), panel.scales.scale + j * kL);
      for (int i = 0; i < kX; ++i) scaled[i] = hn::Add(scaled[i], hn::Mul(integers[i], scale));
    }
    for (int i = 0; i < kX; ++i) sum[i] = finish(sum[i], panel.scales, *x[i], scaled[i]);
  }

  static HWY_INLINE ScaleVec direct(ScaleVec sum, const Rows& rows, int64_t g, int64_t,
                                    const ActivationGroup& x) {
    const int64_t at = g * Blocks::kBlockBytes;
    typename Blocks::Scales scales;
    Blocks::scales(scales, rows, at);
    IntVec scaled = hn::Zero(IntTag());
    Blocks::codes(scales, rows, at, [&](int j, const IntVec* codes, IntVec scale) HWY_ATTR {
      IntVec integers = start(x, j);
      for (int i = 0; i < kGranules; ++i) {
        const IntVec q = broadcast(x.q + kSubElems * j + 4 * i);
        integers = add_products<Blocks::kMaxCode>(integers, codes[i], q);
      }
      scaled = hn::Add(scaled, hn::Mul(integers, scale));
    });
    return finish(sum, scales, x, scaled);
  }
};

void dot_q4_k(const DotArgs& args) { dot_rows<Q8KFormat<Q4KFormat>>(args); }
void dot_q2_k(const DotArgs& args) { dot_rows<Q8KFormat<Q2KFormat>>(args); }
void dot_iq2_xxs(const DotArgs& args) { dot_rows<Q8KFormat<Iq2XxsFormat>>(args); }

}  // namespace HWY_NAMESPACE
}  // namespace ds4::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds4::cpu {

HWY_EXPORT(dot_q4_k);
HWY_EXPORT(dot_q2_k);
HWY_EXPORT(dot_iq2_xxs);

void add_q8_k_dots(Kernels& kernels) {
  kernels.dot_q4_k = HWY_DYNAMIC_POINTER(dot_q4_k);
  kernels.dot_q2_k = HWY_DYNAMIC_POINTER(dot_q2_k);
  kernels.dot_iq2_xxs = HWY_DYNAMIC_POINTER(dot_iq2_xxs);
}

}  // namespace ds4::cpu
#endif
