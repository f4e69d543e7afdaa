// Blocks of 256 values against Q8_K activations, in integers: what Q4_K, Q2_K and IQ2_XXS share
// (panel-inl.h). Compiled once per target.
//
// The packed codes of a group are brought into lanes first, four bytes of every row to a vector,
// and unpacked there: shifts and masks then serve 16 rows at once, and scales and minima stand in
// their rows' lanes as well. Per block, exact in i32 like dot_sums() and dot_sum():
//   scaled = sum_j scale[j] sum_i codes[j, i] q[j, i],   mins = sum_j min[j] sums[j]
//
// A Blocks tells of its format:
//   head(out, rows, at)           scales and mins of the block at `at`
//   codes<kInPlace>(head, rows, at, visit)
//                                 visit(j, codes, scale) for every sub-block j: its granules
//   add<kInPlace>(scaled, j, integers, scale), total<kInPlace>(scaled)
//                                 the scaled sum from the sub-blocks' integers, in two parts
//   Ahead<bytes>                  how what comes next is fetched (block_rows-inl.h)
#if defined(DS4_BACKEND_CPU_BLOCKS_OF_256_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DS4_BACKEND_CPU_BLOCKS_OF_256_INL_H_
#undef DS4_BACKEND_CPU_BLOCKS_OF_256_INL_H_
#else
#define DS4_BACKEND_CPU_BLOCKS_OF_256_INL_H_
#endif

#include "backend/cpu/kernels/block_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ds4::cpu {
namespace HWY_NAMESPACE {

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

}  // namespace HWY_NAMESPACE
}  // namespace ds4::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
