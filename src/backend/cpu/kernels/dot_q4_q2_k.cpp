// Weights in Q4_K and Q2_K against Q8_K activations, in integers (blocks_of_256-inl.h).
// clang-format off: this order is how Highway compiles the file once for each target.
#include "base/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/dot_q4_q2_k.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>
// clang-format on

#include "backend/cpu/kernels/blocks_of_256-inl.h"
#include "quant/q2_k.h"
#include "quant/q4_k.h"

HWY_BEFORE_NAMESPACE();
namespace ds4::cpu {
namespace HWY_NAMESPACE {

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

void dot_q4_k(const DotArgs& args) { dot_rows<Q8KFormat<Q4KFormat>>(args); }
void dot_q2_k(const DotArgs& args) { dot_rows<Q8KFormat<Q2KFormat>>(args); }

}  // namespace HWY_NAMESPACE
}  // namespace ds4::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds4::cpu {

HWY_EXPORT(dot_q4_k);
HWY_EXPORT(dot_q2_k);

void add_q4_q2_k_dots(Kernels& kernels) {
  kernels.dot_q4_k = HWY_DYNAMIC_POINTER(dot_q4_k);
  kernels.dot_q2_k = HWY_DYNAMIC_POINTER(dot_q2_k);
}

}  // namespace ds4::cpu
#endif
