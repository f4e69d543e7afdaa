// What the dot products of weights in blocks share: weight rows side by side in the lanes of i32
// vectors. Compiled once per target.
//
// A group is kL weight rows, one to a lane (16 with AVX-512, 8 with AVX2, 4 with SSE and NEON). A
// granule is four consecutive columns of a group: one i32 vector that holds four byte codes of each
// row. It meets the same four activation codes for all rows, broadcast, in one four-way dot
// product, so block sums are exact integers that stand in their rows' lanes, and nothing is ever
// added across lanes.
//
//   granule g of a group    | r0: c c c c | ... | r15: c c c c |   c: code of column 4g + 0 .. 3
//   activation, broadcast   |     q q q q | ... |      q q q q |   q: activation of the same
//
// A weight row's sum over its blocks is one chain of fused multiply-adds in ascending order:
//   sum <- fma(w_scale * x_scale, float(block sum), sum)        (and again with the mins' sum,
//   negated)
// It depends on nothing else, so it has the same bits for one activation row or many, for weights
// as they are in the file or repacked, and on every target with a fused multiply-add.
//
// Included by kernel files between HWY_BEFORE_NAMESPACE and their own code, once per target.
#if defined(DS4_BACKEND_CPU_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DS4_BACKEND_CPU_PANEL_INL_H_
#undef DS4_BACKEND_CPU_PANEL_INL_H_
#else
#define DS4_BACKEND_CPU_PANEL_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "backend/cpu/kernels/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace ds4::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using IntTag = hn::CappedTag<int32_t, 16>;
using WordTag = hn::Repartition<int16_t, IntTag>;
using ByteTag = hn::Repartition<uint8_t, IntTag>;
using CodeTag = hn::Repartition<int8_t, IntTag>;
using PairTag = hn::Repartition<uint64_t, IntTag>;
using ScaleTag = hn::RebindToFloat<IntTag>;
using IntVec = hn::Vec<IntTag>;
using ScaleVec = hn::Vec<ScaleTag>;
constexpr int kL = static_cast<int>(hn::MaxLanes(IntTag()));  // rows of a group

// The rows of a group; where there are fewer than kL, the last one again.
struct Rows {
  const std::byte* row[kL];
};

HWY_INLINE Rows group_rows(const DotArgs& args, int64_t first) {
  Rows rows;
  for (int r = 0; r < kL; ++r) {
    rows.row[r] = args.w + HWY_MIN(first + r, args.n_w - 1) * args.w_stride;
  }
  return rows;
}

// --- dwords of rows into lanes -------------------------------------------------------------------

// In each 128-bit block: v[i]'s dword t goes to out[t]'s dword i.
HWY_INLINE void transpose_in_blocks(IntVec v0, IntVec v1, IntVec v2, IntVec v3, IntVec* out) {
  const IntTag d;
  const PairTag dp;
  const auto low01 = hn::BitCast(dp, hn::InterleaveLower(d, v0, v1));
  const auto low23 = hn::BitCast(dp, hn::InterleaveLower(d, v2, v3));
  const auto high01 = hn::BitCast(dp, hn::InterleaveUpper(d, v0, v1));
  const auto high23 = hn::BitCast(dp, hn::InterleaveUpper(d, v2, v3));
  out[0] = hn::BitCast(d, hn::InterleaveLower(dp, low01, low23));
  out[1] = hn::BitCast(d, hn::InterleaveUpper(dp, low01, low23));
  out[2] = hn::BitCast(d, hn::InterleaveLower(dp, high01, high23));
  out[3] = hn::BitCast(d, hn::InterleaveUpper(dp, high01, high23));
}

// 16 bytes of rows i, i + 4, i + 8, ...: as many as there are 128-bit blocks in a vector.
template <class Tag = IntTag>
HWY_INLINE IntVec load_quarters(const Rows& rows, int64_t at, int i) {
  const hn::CappedTag<int32_t, 4> d4;
  const auto part = [&](int r) HWY_ATTR {
    return hn::LoadU(d4, reinterpret_cast<const int32_t*>(rows.row[r] + at));
  };
  if constexpr (kL == 4) {
    return part(i);
  } else if constexpr (kL == 8) {
    return hn::Combine(Tag(), part(i + 4), part(i));
  } else {
    const hn::Half<Tag> d8;
    return hn::Combine(Tag(), hn::Combine(d8, part(i + 12), part(i + 8)),
                       hn::Combine(d8, part(i + 4), part(i)));
  }
}

// out[t] = dword t of 16 bytes at `at` of every row.
HWY_INLINE void load_dwords_4(const Rows& rows, int64_t at, IntVec* out) {
  transpose_in_blocks(load_quarters(rows, at, 0), load_quarters(rows, at, 1),
                      load_quarters(rows, at, 2), load_quarters(rows, at, 3), out);
}

// Dword t of 16 bytes at `at` of every row.
template <int t>
HWY_INLINE IntVec load_dword_of_4(const Rows& rows, int64_t at) {
  IntVec out[4];
  load_dwords_4(rows, at, out);
  return out[t];
}

// out[t] = dword t of 32 bytes at `at` of every row.
template <class Tag = IntTag>
HWY_INLINE void load_dwords_8(const Rows& rows, int64_t at, IntVec* out) {
  if constexpr (kL == 4) {
    load_dwords_4(rows, at, out);
    load_dwords_4(rows, at + 16, out + 4);
  } else {
    const Tag d;
    IntVec v[8], t[8];
    for (int r = 0; r < 8; ++r) {
      const hn::CappedTag<int32_t, 8> d8;
      const auto* low = reinterpret_cast<const int32_t*>(rows.row[r] + at);
      if constexpr (kL == 8) {
        v[r] = hn::LoadU(d8, low);
      } else {
        const auto* high = reinterpret_cast<const int32_t*>(rows.row[r + 8] + at);
        v[r] = hn::Combine(d, hn::LoadU(d8, high), hn::LoadU(d8, low));
      }
    }
    transpose_in_blocks(v[0], v[1], v[2], v[3], t);
    transpose_in_blocks(v[4], v[5], v[6], v[7], t + 4);
    // Blocks of t[i] and t[i + 4]: [dword i | dword i + 4] of rows 0-3 and 4-7 (and of 8-11,
    // 12-15).
    for (int i = 0; i < 4; ++i) {
      if constexpr (kL == 8) {
        out[i] = hn::ConcatLowerLower(d, t[i + 4], t[i]);
        out[i + 4] = hn::ConcatUpperUpper(d, t[i + 4], t[i]);
      } else {
        alignas(64) static constexpr int64_t kLow[8] = {0, 1, 8, 9, 4, 5, 12, 13};
        alignas(64) static constexpr int64_t kHigh[8] = {2, 3, 10, 11, 6, 7, 14, 15};
        const hn::RepartitionToWide<Tag> dw;
        const auto a = hn::BitCast(dw, t[i]), b = hn::BitCast(dw, t[i + 4]);
        out[i] = hn::BitCast(d, hn::TwoTablesLookupLanes(dw, a, b, hn::SetTableIndices(dw, kLow)));
        out[i + 4] =
            hn::BitCast(d, hn::TwoTablesLookupLanes(dw, a, b, hn::SetTableIndices(dw, kHigh)));
      }
    }
  }
}

// out[t] = dword t of 64 bytes at `at` of every row.
template <class Tag = IntTag>
HWY_INLINE void load_dwords_16(const Rows& rows, int64_t at, IntVec* out) {
  if constexpr (kL < 16) {
    load_dwords_8(rows, at, out);
    load_dwords_8(rows, at + 32, out + 8);
  } else {
    const Tag d;
    const hn::RepartitionToWide<Tag> dw;
    alignas(64) static constexpr int64_t kEven[8] = {0, 1, 4, 5, 8, 9, 12, 13};
    alignas(64) static constexpr int64_t kOdd[8] = {2, 3, 6, 7, 10, 11, 14, 15};
    const auto even = hn::SetTableIndices(dw, kEven), odd = hn::SetTableIndices(dw, kOdd);
    IntVec t[16];
    for (int i = 0; i < 4; ++i) {
      IntVec v[4];
      for (int r = 0; r < 4; ++r) {
        v[r] = hn::LoadU(d, reinterpret_cast<const int32_t*>(rows.row[4 * i + r] + at));
      }
      transpose_in_blocks(v[0], v[1], v[2], v[3], t + 4 * i);
    }
    // Block b of t[4i + j]: dword 4b + j of rows 4i .. 4i + 3.
    for (int j = 0; j < 4; ++j) {
      const auto low01 = hn::BitCast(dw, hn::ConcatLowerLower(d, t[4 + j], t[j]));
      const auto low23 = hn::BitCast(dw, hn::ConcatLowerLower(d, t[12 + j], t[8 + j]));
      const auto high01 = hn::BitCast(dw, hn::ConcatUpperUpper(d, t[4 + j], t[j]));
      const auto high23 = hn::BitCast(dw, hn::ConcatUpperUpper(d, t[12 + j], t[8 + j]));
      out[j] = hn::BitCast(d, hn::TwoTablesLookupLanes(dw, low01, low23, even));
      out[4 + j] = hn::BitCast(d, hn::TwoTablesLookupLanes(dw, low01, low23, odd));
      out[8 + j] = hn::BitCast(d, hn::TwoTablesLookupLanes(dw, high01, high23, even));
      out[12 + j] = hn::BitCast(d, hn::TwoTablesLookupLanes(dw, high01, high23, odd));
    }
  }
}

// --- products ------------------------------------------------------------------------------------

// Four activation codes, or a pair of sums, for every lane.
HWY_INLINE IntVec broadcast(const void* four_bytes) {
  int32_t value;
  std::memcpy(&value, four_bytes, sizeof(value));
  return hn::Set(IntTag(), value);
}

// sum + the four products of unsigned codes and activation codes. kMaxCode: the largest code there
// is.
template <int kMaxCode>
HWY_INLINE IntVec add_products(IntVec sum, IntVec codes, IntVec x) {
  const IntTag d;
  const auto w8 = hn::BitCast(ByteTag(), codes);
  const auto x8 = hn::BitCast(CodeTag(), x);
#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX3_DL
  if constexpr (2 * kMaxCode * 128 <= 32767) {  // pairs fit 16 bits
    const WordTag d16;
    const auto pairs = hn::SatWidenMulPairwiseAdd(d16, w8, x8);
    return hn::Add(sum, hn::WidenMulPairwiseAdd(d, pairs, hn::Set(d16, int16_t{1})));
  }
#endif
  return hn::SumOfMulQuadAccumulate(d, w8, x8, sum);
}

// sum + the products of two 16-bit values a lane.
HWY_INLINE IntVec add_pair_products(IntVec sum, IntVec a, IntVec b) {
  const IntTag d;
  const WordTag d16;
#if HWY_TARGET <= HWY_AVX3_DL
  return hn::SatWidenMulPairwiseAccumulate(d, hn::BitCast(d16, a), hn::BitCast(d16, b), sum);
#else
  return hn::Add(sum, hn::WidenMulPairwiseAdd(d, hn::BitCast(d16, a), hn::BitCast(d16, b)));
#endif
}

// sum + a * b, where a is within 16 bits and b within 15 and not negative.
HWY_INLINE IntVec add_small_products(IntVec sum, IntVec a, IntVec b) {
#if HWY_ARCH_X86
  return add_pair_products(sum, a, b);  // the upper half of b is 0
#else
  return hn::Add(sum, hn::Mul(a, b));
#endif
}

// Byte k of every lane as an i32.
HWY_INLINE IntVec byte_of(IntVec v, int k) {
  alignas(64) static constexpr uint8_t kPick[4][16] = {
      {0, 128, 128, 128, 4, 128, 128, 128, 8, 128, 128, 128, 12, 128, 128, 128},
      {1, 128, 128, 128, 5, 128, 128, 128, 9, 128, 128, 128, 13, 128, 128, 128},
      {2, 128, 128, 128, 6, 128, 128, 128, 10, 128, 128, 128, 14, 128, 128, 128},
      {3, 128, 128, 128, 7, 128, 128, 128, 11, 128, 128, 128, 15, 128, 128, 128}};
  const ByteTag d;
  const auto pick = hn::LoadDup128(d, kPick[k]);
  return hn::BitCast(IntTag(), hn::TableLookupBytesOr0(hn::BitCast(d, v), pick));
}

template <int kBits>
HWY_INLINE IntVec shift_right(IntVec v) {
  const hn::RebindToUnsigned<IntTag> du;
  return hn::BitCast(IntTag(), hn::ShiftRight<kBits>(hn::BitCast(du, v)));
}

// Bits kFrom .. kFrom + kBits - 1 of every byte, moved to its low end.
template <int kFrom, int kBits>
HWY_INLINE IntVec bits_of(IntVec v) {
#if HWY_TARGET <= HWY_AVX3_DL
  // One bit matrix for the byte instead of a shift and a mask: row 7 - i makes bit i.
  if constexpr (kFrom > 0) {
    uint64_t rows = 0;
    for (int i = 0; i < kBits; ++i) rows |= uint64_t{1} << (kFrom + i) << (8 * (7 - i));
    const auto matrix = _mm512_set1_epi64(static_cast<int64_t>(rows));
    return IntVec{_mm512_gf2p8affine_epi64_epi8(v.raw, matrix, 0)};
  }
#endif
  constexpr int32_t kMask = ((1 << kBits) - 1) * 0x01010101;
  const hn::RebindToUnsigned<IntTag> du;
  const auto shifted = hn::BitCast(IntTag(), hn::ShiftRight<kFrom>(hn::BitCast(du, v)));
  return hn::And(shifted, hn::Set(IntTag(), kMask));
}

HWY_INLINE IntVec mask_with(IntVec v, int32_t mask) { return hn::And(v, hn::Set(IntTag(), mask)); }

// The f16 in the low half (kHigh: the high half) of every lane, exact.
template <bool kHigh>
HWY_INLINE ScaleVec half_to_float(IntVec v) {
  const hn::RebindToUnsigned<IntTag> du;
  const hn::Rebind<uint16_t, ScaleTag> d16;
  const hn::Rebind<hwy::float16_t, ScaleTag> dh;
  const IntVec half = kHigh ? shift_right<16>(v) : mask_with(v, 0xffff);
  return hn::PromoteTo(ScaleTag(), hn::BitCast(dh, hn::TruncateTo(d16, hn::BitCast(du, half))));
}

}  // namespace HWY_NAMESPACE
}  // namespace ds4::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
