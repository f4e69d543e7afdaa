// The indexer's scores of many rows for one query, and the search for those above a bar.
//
// Heads stand in lanes, so that no product needs a sum across lanes: a row's values are broadcast,
// four at a time as int8, against the same four of 16 heads. A register tile is kRows rows x kG
// groups of heads; the four block sums of a product are scaled and added in f32 as they are done.
//
// FP4 in integers: codes count halves, so a row's are -12 .. 12 and become unsigned by adding 12,
// which the head's start value takes back. With VNNI one instruction adds 64 products; elsewhere
// pairs are added in 16 bits (a block of 32 stays below 8 * 2 * 24 * 12 = 4608) and widened once.
// clang-format off: this order is how Highway compiles the file once for each target.
#include "base/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/index_scores.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <bit>
#include <cstring>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/lanes-inl.h"
#include "quant/packed_index.h"

HWY_BEFORE_NAMESPACE();
namespace ds4::cpu {
namespace HWY_NAMESPACE {

inline constexpr int64_t kRows = 4;
inline constexpr int kGroups = kVecs == 1 ? 2 : 1;  // of heads, at a time
inline constexpr int kBlocks = kPackedIndexBlocks;
inline constexpr int64_t kWordsPerBlock = 8;  // of four values
static_assert(kIndexLanes == kLanes && kIndexDim == kPackedIndexElems);

using IntTag = hn::RebindToSigned<FloatTag>;
using IntVec = hn::Vec<IntTag>;
using ByteTag = hn::Repartition<uint8_t, FloatTag>;
using SignedByteTag = hn::Repartition<int8_t, FloatTag>;
using ShortTag = hn::Repartition<int16_t, FloatTag>;

// relu(products) of kG groups of heads, weighed, onto the lane sums of the rows. NaN counts as 0.
template <int kG>
HWY_INLINE void add_heads(LaneSums (&scores)[kRows], const LaneSums (&products)[kRows][kG],
                          const float* weights) {
  const FloatTag d;
  for (int64_t r = 0; r < kRows; ++r) {
    for (int g = 0; g < kG; ++g) {
      for (int v = 0; v < kVecs; ++v) {
        const FloatVec p = products[r][g].v[v];
        const FloatVec positive = hn::IfThenElseZero(hn::Gt(p, hn::Zero(d)), p);
        const FloatVec weight = hn::LoadU(d, weights + g * kLanes + v * kVecLanes);
        scores[r].v[v] = hn::MulAdd(weight, positive, scores[r].v[v]);
      }
    }
  }
}

// Writes the scores of up to four rows.
HWY_INLINE void finish_rows(float* out, const LaneSums (&scores)[kRows], int64_t n) {
  const hn::CappedTag<float, 4> d4;
  hn::StoreN(add_lanes_of_four(scores[0], scores[1], scores[2], scores[3]), d4, out,
             static_cast<size_t>(n));
}

HWY_INLINE void clear(LaneSums (&scores)[kRows]) {
  for (int64_t r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVecs; ++v) scores[r].v[v] = hn::Zero(FloatTag());
  }
}

// --- f32 ----------------------------------------------------------------------------------------

template <int kG>
HWY_INLINE void score_f32(LaneSums (&scores)[kRows], const IndexQuery& query,
                          const float* const (&rows)[kRows], int64_t group) {
  const FloatTag d;
  const int64_t heads = query.n_groups * kLanes;
  LaneSums products[kRows][kG];
  for (int b = 0; b < kBlocks; ++b) {
    LaneSums sums[kRows][kG];
    for (int64_t r = 0; r < kRows; ++r) {
      for (int g = 0; g < kG; ++g) {
        for (int v = 0; v < kVecs; ++v) sums[r][g].v[v] = hn::Zero(d);
      }
    }
    for (int64_t i = b * kFp4BlockElems; i < (b + 1) * kFp4BlockElems; ++i) {
      const float* q = query.values + i * heads + group * kLanes;
      for (int g = 0; g < kG; ++g) {
        for (int v = 0; v < kVecs; ++v) {
          const FloatVec qs = hn::LoadU(d, q + g * kLanes + v * kVecLanes);
          for (int64_t r = 0; r < kRows; ++r) {
            sums[r][g].v[v] = hn::MulAdd(hn::Set(d, rows[r][i]), qs, sums[r][g].v[v]);
          }
        }
      }
    }
    for (int64_t r = 0; r < kRows; ++r) {
      for (int g = 0; g < kG; ++g) {
        for (int v = 0; v < kVecs; ++v) {
          FloatVec& p = products[r][g].v[v];
          p = b == 0 ? sums[r][g].v[v] : hn::Add(p, sums[r][g].v[v]);
        }
      }
    }
  }
  add_heads<kG>(scores, products, query.weights + group * kLanes);
}

void index_scores_f32(const IndexScoreArgs& args) {
  const auto first = reinterpret_cast<const float*>(args.rows);
  const IndexQuery& query = *args.query;
  for (int64_t c = 0; c < args.n_rows; c += kRows) {
    const float* rows[kRows];  // the last tile repeats its last row
    for (int64_t r = 0; r < kRows; ++r) {
      rows[r] = first + std::min(c + r, args.n_rows - 1) * kIndexDim;
    }
    LaneSums scores[kRows];
    clear(scores);
    int64_t group = 0;
    for (; group + kGroups <= query.n_groups; group += kGroups) {
      score_f32<kGroups>(scores, query, rows, group);
    }
    for (; group < query.n_groups; ++group) score_f32<1>(scores, query, rows, group);
    finish_rows(args.scores + c, scores, std::min(kRows, args.n_rows - c));
  }
}

// --- FP4 ----------------------------------------------------------------------------------------

// Some rows as the integer products take them.
inline constexpr int64_t kUnpackedRows = 32;
struct Unpacked {
  // Doubled codes plus kIndexBias: 64 low nibbles, then 64 high ones.
  alignas(64) uint8_t codes[kUnpackedRows][kIndexDim];
  alignas(64) float scales[kUnpackedRows][kBlocks];
};

void unpack_rows(Unpacked& to, const PackedIndexRow* rows, int64_t n) {
  alignas(16) static constexpr uint8_t kBiased[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                                      12, 11, 10, 9,  8,  6,  4,  0};
  const hn::CappedTag<uint8_t, 64> d;
  const auto table = hn::LoadDup128(d, kBiased);
  const auto nibble = hn::Set(d, uint8_t{15});
  const hn::CappedTag<uint32_t, 4> d32;
  const hn::Rebind<uint8_t, decltype(d32)> d8;
  for (int64_t r = 0; r < n; ++r) {
    for (size_t i = 0; i < sizeof(rows[r].codes); i += hn::Lanes(d)) {
      const auto pairs = hn::LoadU(d, rows[r].codes + i);
      hn::StoreU(hn::TableLookupBytes(table, hn::And(pairs, nibble)), d, to.codes[r] + i);
      hn::StoreU(hn::TableLookupBytes(table, hn::And(hn::ShiftRight<4>(pairs), nibble)), d,
                 to.codes[r] + kIndexDim / 2 + i);
    }
    // 2^(code - 127); the code of NaN, 255, becomes an infinity first and a NaN with one more bit.
    const auto code = hn::PromoteTo(d32, hn::LoadU(d8, rows[r].scales));
    const auto nan_bit =
        hn::IfThenElseZero(hn::Eq(code, hn::Set(d32, 255u)), hn::Set(d32, 0x400000u));
    hn::StoreU(hn::Or(hn::ShiftLeft<23>(code), nan_bit), d32,
               reinterpret_cast<uint32_t*>(to.scales[r]));
  }
}

// Sums of products of unsigned and signed bytes in 32-bit lanes, over the words of a block.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL
struct BlockSum {
  IntVec sum;
  HWY_INLINE void start(IntVec value) { sum = value; }
  HWY_INLINE void add(hn::Vec<ByteTag> a, hn::Vec<SignedByteTag> b) {
    sum = hn::SumOfMulQuadAccumulate(IntTag(), a, b, sum);
  }
  HWY_INLINE IntVec finish() const { return sum; }
};
#else
struct BlockSum {
  IntVec first;
  hn::Vec<ShortTag> pairs;
  HWY_INLINE void start(IntVec value) {
    first = value;
    pairs = hn::Zero(ShortTag());
  }
  HWY_INLINE void add(hn::Vec<ByteTag> a, hn::Vec<SignedByteTag> b) {
    pairs = hn::Add(pairs, hn::SatWidenMulPairwiseAdd(ShortTag(), a, b));
  }
  HWY_INLINE IntVec finish() const {
    const ShortTag d;
    return hn::Add(first, hn::WidenMulPairwiseAdd(IntTag(), pairs, hn::Set(d, int16_t{1})));
  }
};
#endif

// A vector that repeats the four bytes at `p`.
HWY_INLINE hn::Vec<ByteTag> repeat_word(const uint8_t* p) {
  int32_t word;
  std::memcpy(&word, p, sizeof(word));
  return hn::BitCast(ByteTag(), hn::Set(IntTag(), word));
}

// One block of kRows x kG products: the integer sums, then onto `products` as f32.
template <int kG>
HWY_INLINE void add_block(LaneSums (&products)[kRows][kG], const IndexQuery& query,
                          const Unpacked& rows, int64_t c, int64_t group, int b) {
  const FloatTag d;
  const int64_t heads = query.n_groups * kLanes, first = group * kLanes;
  BlockSum sums[kRows][kG][kVecs];
  for (int g = 0; g < kG; ++g) {
    for (int v = 0; v < kVecs; ++v) {
      const int32_t* start = query.starts + b * heads + first + g * kLanes + v * kVecLanes;
      for (int64_t r = 0; r < kRows; ++r) sums[r][g][v].start(hn::LoadU(IntTag(), start));
    }
  }
  for (int64_t i = 0; i < kWordsPerBlock; ++i) {
    // The block's low nibbles are 16 bytes in the first half, its high ones in the second.
    const int64_t word = b * 4 + (i & 3) + (i >> 2) * (kIndexDim / 8);
    hn::Vec<ByteTag> row[kRows];
    for (int64_t r = 0; r < kRows; ++r) row[r] = repeat_word(rows.codes[c + r] + 4 * word);
    for (int g = 0; g < kG; ++g) {
      for (int v = 0; v < kVecs; ++v) {
        const int64_t head = first + g * kLanes + v * kVecLanes;
        const auto q = hn::LoadU(SignedByteTag(), query.codes + 4 * (word * heads + head));
        for (int64_t r = 0; r < kRows; ++r) sums[r][g][v].add(row[r], q);
      }
    }
  }
  for (int g = 0; g < kG; ++g) {
    for (int v = 0; v < kVecs; ++v) {
      const float* scale = query.scales + b * heads + first + g * kLanes + v * kVecLanes;
      const FloatVec q_scale = hn::LoadU(d, scale);
      for (int64_t r = 0; r < kRows; ++r) {
        const FloatVec sum = hn::Mul(hn::ConvertTo(d, sums[r][g][v].finish()), q_scale);
        const FloatVec row_scale = hn::Set(d, rows.scales[c + r][b]);
        FloatVec& p = products[r][g].v[v];
        p = b == 0 ? hn::Mul(sum, row_scale) : hn::MulAdd(sum, row_scale, p);
      }
    }
  }
}

template <int kG>
HWY_INLINE void score_fp4(LaneSums (&scores)[kRows], const IndexQuery& query, const Unpacked& rows,
                          int64_t c, int64_t group) {
  LaneSums products[kRows][kG];
  for (int b = 0; b < kBlocks; ++b) add_block<kG>(products, query, rows, c, group, b);
  add_heads<kG>(scores, products, query.weights + group * kLanes);
}

void index_scores_fp4(const IndexScoreArgs& args) {
  const auto packed = reinterpret_cast<const PackedIndexRow*>(args.rows);
  const IndexQuery& query = *args.query;
  Unpacked rows;
  for (int64_t first = 0; first < args.n_rows; first += kUnpackedRows) {
    const int64_t n = std::min(kUnpackedRows, args.n_rows - first);
    unpack_rows(rows, packed + first, n);
    for (int64_t r = n; r % kRows != 0; ++r) {  // whole tiles; those scores are dropped
      std::memset(rows.codes[r], 0, sizeof(rows.codes[r]));
      std::memset(rows.scales[r], 0, sizeof(rows.scales[r]));
    }
    for (int64_t c = 0; c < n; c += kRows) {
      LaneSums scores[kRows];
      clear(scores);
      int64_t group = 0;
      for (; group + kGroups <= query.n_groups; group += kGroups) {
        score_fp4<kGroups>(scores, query, rows, c, group);
      }
      for (; group < query.n_groups; ++group) score_fp4<1>(scores, query, rows, c, group);
      finish_rows(args.scores + first + c, scores, std::min(kRows, n - c));
    }
  }
}

int64_t scores_above(int32_t* found, const float* scores, int64_t n, float bar) {
  const FloatTag d;
  const FloatVec bars = hn::Set(d, bar);
  int64_t n_found = 0, i = 0;
  for (; i + kVecLanes <= n; i += kVecLanes) {
    uint64_t bits = 0;
    hn::StoreMaskBits(d, hn::Gt(hn::LoadU(d, scores + i), bars), reinterpret_cast<uint8_t*>(&bits));
    for (; bits != 0; bits &= bits - 1) {
      found[n_found++] = static_cast<int32_t>(i + std::countr_zero(bits));
    }
  }
  for (; i < n; ++i) {
    if (scores[i] > bar) found[n_found++] = static_cast<int32_t>(i);
  }
  return n_found;
}

}  // namespace HWY_NAMESPACE
}  // namespace ds4::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds4::cpu {

HWY_EXPORT(index_scores_f32);
HWY_EXPORT(index_scores_fp4);
HWY_EXPORT(scores_above);

void add_index_scores(Kernels& kernels) {
  kernels.index_scores_f32 = HWY_DYNAMIC_POINTER(index_scores_f32);
  kernels.index_scores_fp4 = HWY_DYNAMIC_POINTER(index_scores_fp4);
  kernels.scores_above = HWY_DYNAMIC_POINTER(scores_above);
}

}  // namespace ds4::cpu
#endif
