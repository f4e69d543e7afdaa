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

// What stands beside the codes of one block of every row. Scales and mins are bytes, four
// sub-blocks to a vector; mins come out in pairs of 16 bits, (0, 2) and (1, 3), as
// ActivationGroup's pairs have their sums.
template <int kSubBlocks, bool kHasMins>
struct Head {
  static constexpr int kMinPairs = kHasMins ? kSubBlocks / 2 : 0;
  ScaleVec d, dmin;
  IntVec scales[kSubBlocks / 4];
  IntVec mins[kHasMins ? kSubBlocks / 4 : 1];

  HWY_INLINE IntVec scale(int j) const { return byte_of(scales[j / 4], j % 4); }
  HWY_INLINE IntVec min_pair(int k) const {
    return mask_with(k % 2 == 0 ? mins[k / 2] : shift_right<8>(mins[k / 2]), 0x00ff00ff);
  }
};

// The same in memory, for several activation rows.
template <int kSubBlocks, bool kHasMins>
struct StoredHead {
  static constexpr int kMinPairs = kHasMins ? kSubBlocks / 2 : 0;
  alignas(64) int32_t scales[kSubBlocks * kL];
  alignas(64) int32_t min_pairs[(kHasMins ? kMinPairs : 1) * kL];
  alignas(64) float d[kL];
  alignas(64) float dmin[kL];

  HWY_INLINE IntVec scale(int j) const { return hn::Load(IntTag(), scales + j * kL); }
  HWY_INLINE IntVec min_pair(int k) const { return hn::Load(IntTag(), min_pairs + k * kL); }
};

// Codes that need not be moved to the low end of their bytes when the sum of their products is
// shifted instead: once for a sub-block, exactly. Sums in 16 bits would not hold them.
inline constexpr bool kCodesInPlace = HWY_TARGET <= HWY_AVX3_DL;

template <int kFrom, int kBits>
HWY_INLINE IntVec bits_in_place(IntVec v) {
  return mask_with(v, static_cast<int32_t>(0x01010101u * ((1u << kBits) - 1u) << kFrom));
}

// A Blocks tells of its format:
//   head(out, rows, at)           scales and mins of the block at `at`
//   codes<kInPlace>(head, rows, at, visit)
//                                 visit(j, codes, scale) for every sub-block j: its granules
//   add<kInPlace>(scaled, j, integers, scale), total<kInPlace>(scaled)
//                                 the scaled sum from the sub-blocks' integers, in two parts
struct Q4KFormat {
  static constexpr int64_t kBlockBytes = sizeof(BlockQ4K);
  static constexpr int kSubBlocks = kQ4KSubBlocks;
  static constexpr int kBias = 0;
  static constexpr int kMaxCode = 15;
  static constexpr bool kHasMins = true;
  using Head = cpu::HWY_NAMESPACE::Head<kSubBlocks, kHasMins>;
  template <int64_t kPiece>
  using Ahead = Fetch<kPiece>;

  static HWY_INLINE const int16_t* min_sums(const ActivationGroup& x) { return x.pairs32; }

  static HWY_INLINE void head(Head& out, const Rows& rows, int64_t at) {
    IntVec packed[4];  // d and dmin, then the twelve bytes of scales
    load_dwords_4(rows, at, packed);
    out.d = half_to_float<false>(packed[0]);
    out.dmin = half_to_float<true>(packed[0]);
    const auto upper = [&](IntVec v) HWY_ATTR { return mask_with(shift_right<2>(v), 0x30303030); };
    out.scales[0] = mask_with(packed[1], 0x3f3f3f3f);
    out.scales[1] = hn::Or(bits_of<0, 4>(packed[3]), upper(packed[1]));
    out.mins[0] = mask_with(packed[2], 0x3f3f3f3f);
    out.mins[1] = hn::Or(bits_of<4, 4>(packed[3]), upper(packed[2]));
  }

  template <bool kInPlace, class Visit>
  static HWY_INLINE void codes(const Head& head, const Rows& rows, int64_t at, Visit visit) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      IntVec packed[16], codes[8];
      load_dwords_16(rows, at + 16 + 64 * half, packed);
#pragma GCC unroll 2
      for (int g = 0; g < 2; ++g) {
        const int j = 4 * half + 2 * g;
        for (int i = 0; i < 8; ++i) codes[i] = bits_of<0, 4>(packed[8 * g + i]);
        visit(j, codes, head.scale(j));
        for (int i = 0; i < 8; ++i) {
          const IntVec v = packed[8 * g + i];
          codes[i] = kInPlace ? bits_in_place<4, 4>(v) : bits_of<4, 4>(v);
        }
        visit(j + 1, codes, head.scale(j + 1));
      }
    }
  }

  // In place, odd sub-blocks' sums are 16 times as large: at most 32 * 240 * 128 * 63 * 4 < 2^28.
  template <bool kInPlace>
  static HWY_INLINE void add(IntVec* scaled, int j, IntVec integers, IntVec scale) {
    IntVec& part = scaled[kInPlace ? j % 2 : 0];
    part = hn::Add(part, hn::Mul(integers, scale));
  }
  template <bool kInPlace>
  static HWY_INLINE IntVec total(const IntVec* scaled) {
    return kInPlace ? hn::Add(scaled[0], hn::ShiftRight<4>(scaled[1])) : scaled[0];
  }
};

struct Q2KFormat {
  static constexpr int64_t kBlockBytes = sizeof(BlockQ2K);
  static constexpr int kSubBlocks = kQ2KSubBlocks;
  static constexpr int kBias = 0;
  static constexpr int kMaxCode = 3;
  static constexpr bool kHasMins = true;
  using Head = cpu::HWY_NAMESPACE::Head<kSubBlocks, kHasMins>;
  template <int64_t kPiece>
  using Ahead = Fetch<kPiece>;

  static HWY_INLINE const int16_t* min_sums(const ActivationGroup& x) { return x.pairs16; }

  static HWY_INLINE void head(Head& out, const Rows& rows, int64_t at) {
    IntVec packed[4];
    load_dwords_4(rows, at, packed);
    for (int i = 0; i < 4; ++i) {
      out.scales[i] = bits_of<0, 4>(packed[i]);
      out.mins[i] = bits_of<4, 4>(packed[i]);
    }
    const IntVec halves = load_dword_of_4<3>(rows, at + 68);
    out.d = half_to_float<false>(halves);
    out.dmin = half_to_float<true>(halves);
  }

  template <int kPair, bool kInPlace, class Visit>
  static HWY_INLINE void pair(const Head& head, const IntVec* packed, int first, Visit visit) {
    IntVec codes[4];
    for (int i = 0; i < 4; ++i) {
      codes[i] =
          kInPlace ? bits_in_place<2 * kPair, 2>(packed[i]) : bits_of<2 * kPair, 2>(packed[i]);
    }
    visit(first + 2 * kPair, codes, head.scale(first + 2 * kPair));
  }

  template <bool kInPlace, class Visit>
  static HWY_INLINE void codes(const Head& head, const Rows& rows, int64_t at, Visit visit) {
#pragma GCC unroll 4
    for (int b = 0; b < 4; ++b) {  // 16 bytes: half b / 2, left or right 16 of its 32
      IntVec packed[4];
      load_dwords_4(rows, at + 16 + 16 * b, packed);
      const int first = 8 * (b / 2) + b % 2;
      pair<0, kInPlace>(head, packed, first, visit);
      pair<1, kInPlace>(head, packed, first, visit);
      pair<2, kInPlace>(head, packed, first, visit);
      pair<3, kInPlace>(head, packed, first, visit);
    }
  }

  // In place, the sums of bit pair p are 4^p times as large. They go to part p % 2, brought within
  // 16 bits: at most 4 * 16 * 3 * 128 = 24576.
  template <bool kInPlace>
  static HWY_INLINE void add(IntVec* scaled, int j, IntVec integers, IntVec scale) {
    const int p = j / 2 % 4;
    if (kInPlace && p >= 2) integers = hn::ShiftRight<4>(integers);
    IntVec& part = scaled[kInPlace ? p % 2 : 0];
    part = add_small_products(part, integers, scale);
  }
  template <bool kInPlace>
  static HWY_INLINE IntVec total(const IntVec* scaled) {
    return kInPlace ? hn::Add(scaled[0], hn::ShiftRight<2>(scaled[1])) : scaled[0];
  }
};

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

// --- the dot product they share -----------------------------------------------------------------

template <class Blocks>
struct Q8KFormat {
  static constexpr int kSubBlocks = Blocks::kSubBlocks;
  static constexpr int kGranules = 64 / kSubBlocks;  // of a sub-block
  static constexpr int kSubElems = 4 * kGranules;
  using Ahead = typename Blocks::template Ahead<kL * Blocks::kBlockBytes / 8>;

  struct Panel {
    StoredHead<kSubBlocks, Blocks::kHasMins> head;
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

  // Eight times a block.
  static HWY_INLINE void fetch_at(int j, Ahead& fetch) {
    if (j % (kSubBlocks / 8) == 0) fetch.next();
  }

  template <class AnyHead>
  static HWY_INLINE IntVec dot_mins(const AnyHead& head, const ActivationGroup& x) {
    IntVec sums[2] = {hn::Zero(IntTag()), hn::Zero(IntTag())};
    for (int k = 0; k < kSubBlocks / 2; ++k) {
      const IntVec pair = broadcast(Blocks::min_sums(x) + 2 * k);
      sums[k % 2] = add_pair_products(sums[k % 2], head.min_pair(k), pair);
    }
    return hn::Add(sums[0], sums[1]);
  }

  static HWY_INLINE ScaleVec add_scaled(ScaleVec sum, ScaleVec scale, IntVec scaled) {
    return hn::MulAdd(scale, hn::ConvertTo(ScaleTag(), scaled), sum);
  }
  static HWY_INLINE ScaleVec subtract_mins(ScaleVec sum, ScaleVec scale, IntVec mins) {
    return hn::NegMulAdd(scale, hn::ConvertTo(ScaleTag(), mins), sum);
  }

  static HWY_INLINE void build(Panel& panel, const Rows& rows, int64_t g, int64_t, Ahead& fetch) {
    const ScaleTag d;
    const int64_t at = g * Blocks::kBlockBytes;
    typename Blocks::Head head;
    Blocks::head(head, rows, at);
    hn::Store(head.d, d, panel.head.d);
    if constexpr (Blocks::kHasMins) {
      hn::Store(head.dmin, d, panel.head.dmin);
      for (int k = 0; k < kSubBlocks / 2; ++k) {
        hn::Store(head.min_pair(k), IntTag(), panel.head.min_pairs + k * kL);
      }
    }
    Blocks::template codes<false>(
        head, rows, at, [&](int j, const IntVec* codes, IntVec scale) HWY_ATTR {
          fetch_at(j, fetch);
          hn::Store(scale, IntTag(), panel.head.scales + j * kL);
          for (int i = 0; i < kGranules; ++i) {
            hn::Store(codes[i], IntTag(), panel.codes + (kGranules * j + i) * kL);
          }
        });
  }

  template <int kX>
  static HWY_INLINE void multiply(ScaleVec (&sum)[kX], const Panel& panel,
                                  const ActivationGroup* const (&x)[kX]) {
    const ScaleTag d;
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
      const IntVec scale = panel.head.scale(j);
      for (int i = 0; i < kX; ++i) Blocks::template add<false>(&scaled[i], j, integers[i], scale);
    }
    for (int i = 0; i < kX; ++i) {
      const ScaleVec x_scale = hn::Set(d, x[i]->d[0]);
      sum[i] = add_scaled(sum[i], hn::Mul(hn::Load(d, panel.head.d), x_scale), scaled[i]);
      if constexpr (Blocks::kHasMins) {
        const ScaleVec scale = hn::Mul(hn::Load(d, panel.head.dmin), x_scale);
        sum[i] = subtract_mins(sum[i], scale, dot_mins(panel.head, *x[i]));
      }
    }
  }

  static HWY_INLINE ScaleVec direct(ScaleVec sum, const Rows& rows, int64_t g, int64_t,
                                    const ActivationGroup& x, Ahead& fetch) {
    const int64_t at = g * Blocks::kBlockBytes;
    typename Blocks::Head head;
    Blocks::head(head, rows, at);
    IntVec mins = hn::Zero(IntTag());
    if constexpr (Blocks::kHasMins) mins = dot_mins(head, x);
    IntVec scaled[2] = {hn::Zero(IntTag()), hn::Zero(IntTag())};
    Blocks::template codes<kCodesInPlace>(
        head, rows, at, [&](int j, const IntVec* codes, IntVec scale) HWY_ATTR {
          fetch_at(j, fetch);
          IntVec integers = start(x, j);
          for (int i = 0; i < kGranules; ++i) {
            const IntVec q = broadcast(x.q + kSubElems * j + 4 * i);
            integers = add_products<Blocks::kMaxCode>(integers, codes[i], q);
          }
          Blocks::template add<kCodesInPlace>(scaled, j, integers, scale);
        });
    const ScaleVec x_scale = hn::Set(ScaleTag(), x.d[0]);
    const IntVec total = Blocks::template total<kCodesInPlace>(scaled);
    sum = add_scaled(sum, hn::Mul(head.d, x_scale), total);
    if constexpr (Blocks::kHasMins) {
      sum = subtract_mins(sum, hn::Mul(head.dmin, x_scale), mins);
    }
    return sum;
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
