// The indexer's scores of many rows for one query, and the search for those above a bar.
//
// Heads stand in lanes, so that no product needs a sum across lanes: a row's values are broadcast,
// four at a time as int8, against the same four of 16 heads. A register tile is some rows x kG
// groups of 16 heads; the four block sums of a product are scaled and added in f32 as they are
// done.
//
// FP4 in integers: codes count halves, so a row's are -12 .. 12 and become unsigned by adding 12,
// which the head's start value takes back. With VNNI one instruction adds 64 products; elsewhere
// pairs are added in 16 bits (a block of 32 stays below 8 * 2 * 24 * 12 = 4608) and widened once.
// Beside 64 such instructions for four rows of 32 heads and a block stand 8 conversions, 8 sums of
// exponents (the two scales are powers of two) and 8 multiply-adds; only the last compete for the
// multipliers.
// clang-format off: this order is how Highway compiles the file once for each target.
#include "base/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/index_scores.cpp"
#include <hwy/foreach_target.h>

#include <hwy/cache_control.h>
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

// Groups of heads at a time, and rows beside them: eight sums in flight hide the latency.
inline constexpr int kGroups = kVecs == 1 ? 2 : 1;
template <int kG>
inline constexpr int64_t kTileRows = kVecs == 1 ? 8 / kG : 4;
inline constexpr int kBlocks = kPackedIndexBlocks;
inline constexpr int64_t kWordsPerBlock = 8;  // of four values
static_assert(kIndexLanes == kLanes && kIndexDim == kPackedIndexElems);

using IntTag = hn::RebindToSigned<FloatTag>;
using IntVec = hn::Vec<IntTag>;
using ByteTag = hn::Repartition<uint8_t, FloatTag>;
using SignedByteTag = hn::Repartition<int8_t, FloatTag>;
using ShortTag = hn::Repartition<int16_t, FloatTag>;

// One vector set for each row and group of a tile.
template <int kG>
using Tile = LaneSums[kTileRows<kG>][kG];

// Runs fn(row, group, vector) over a tile.
template <int kG, class Fn>
HWY_INLINE void each_vector(Fn fn) {
  for (int g = 0; g < kG; ++g) {
    for (int v = 0; v < kVecs; ++v) {
      for (int64_t r = 0; r < kTileRows<kG>; ++r) fn(r, g, v);
    }
  }
}

// relu(products) of kG groups of heads, weighed, onto the lane sums of the rows. NaN counts as 0.
template <int kG>
HWY_INLINE void add_heads(LaneSums* scores, const Tile<kG>& products, const float* weights) {
  const FloatTag d;
  each_vector<kG>([&](int64_t r, int g, int v) HWY_ATTR {
    const FloatVec p = products[r][g].v[v];
    const FloatVec positive = hn::IfThenElseZero(hn::Gt(p, hn::Zero(d)), p);
    const FloatVec weight = hn::LoadU(d, weights + g * kLanes + v * kVecLanes);
    scores[r].v[v] = hn::MulAdd(weight, positive, scores[r].v[v]);
  });
}

// Writes the scores of the first n rows of a tile.
HWY_INLINE void finish_rows(float* out, const LaneSums* scores, int64_t n) {
  const hn::CappedTag<float, 4> d4;
  for (int64_t r = 0; r < n; r += 4) {
    hn::StoreN(add_lanes_of_four(scores[r], scores[r + 1], scores[r + 2], scores[r + 3]), d4,
               out + r, static_cast<size_t>(std::min<int64_t>(4, n - r)));
  }
}

HWY_INLINE void clear(LaneSums* sums, int64_t n) {
  for (int64_t r = 0; r < n; ++r) {
    for (int v = 0; v < kVecs; ++v) sums[r].v[v] = hn::Zero(FloatTag());
  }
}

// --- f32 ----------------------------------------------------------------------------------------

template <int kG>
HWY_INLINE void score_tile_f32(LaneSums* scores, const IndexQuery& query, const float* const* rows,
                               int64_t group) {
  const FloatTag d;
  const int64_t heads = query.n_groups * kLanes;
  Tile<kG> products;
  for (int b = 0; b < kBlocks; ++b) {
    Tile<kG> sums;
    clear(sums[0], kTileRows<kG> * kG);
    for (int64_t i = b * kFp4BlockElems; i < (b + 1) * kFp4BlockElems; ++i) {
      const float* q = query.values + i * heads + group * kLanes;
      each_vector<kG>([&](int64_t r, int g, int v) HWY_ATTR {
        const FloatVec qs = hn::LoadU(d, q + g * kLanes + v * kVecLanes);
        sums[r][g].v[v] = hn::MulAdd(hn::Set(d, rows[r][i]), qs, sums[r][g].v[v]);
      });
    }
    each_vector<kG>([&](int64_t r, int g, int v) HWY_ATTR {
      FloatVec& p = products[r][g].v[v];
      p = b == 0 ? sums[r][g].v[v] : hn::Add(p, sums[r][g].v[v]);
    });
  }
  add_heads<kG>(scores, products, query.weights + group * kLanes);
}

template <int kG>
void score_f32(const IndexScoreArgs& args) {
  constexpr int64_t kR = kTileRows<kG>;
  const auto first = reinterpret_cast<const float*>(args.rows);
  for (int64_t c = 0; c < args.n_rows; c += kR) {
    const float* rows[kR];  // the last tile repeats its last row
    for (int64_t r = 0; r < kR; ++r) rows[r] = first + std::min(c + r, args.n_rows - 1) * kIndexDim;
    // A tile reads its rows side by side, which no hardware prefetcher follows.
    const int64_t next = std::min((c + 2 * kR) * kIndexDim, args.n_rows * kIndexDim);
    for (int64_t i = (c + kR) * kIndexDim; i < next; i += 16) hwy::Prefetch(first + i);
    LaneSums scores[kR];
    clear(scores, kR);
    for (int64_t group = 0; group < args.query->n_groups; group += kG) {
      score_tile_f32<kG>(scores, *args.query, rows, group);
    }
    finish_rows(args.scores + c, scores, std::min(kR, args.n_rows - c));
  }
}

void index_scores_f32(const IndexScoreArgs& args) {
  args.query->n_groups % kGroups == 0 ? score_f32<kGroups>(args) : score_f32<1>(args);
}

// --- FP4 ----------------------------------------------------------------------------------------

// Some rows as the integer products take them.
inline constexpr int64_t kUnpackedRows = 32;
struct Unpacked {
  // Doubled codes plus kIndexBias: 64 low nibbles, then 64 high ones.
  alignas(64) uint8_t codes[kUnpackedRows][kIndexDim];
  alignas(64) float scales[kUnpackedRows][kBlocks];
  // The scales' exponents where f32 has them: adding one to a power of two multiplies by the scale.
  alignas(64) int32_t steps[kUnpackedRows][kBlocks];
  bool plain;  // every exponent is within +-kIndexPlainExponent
};

void unpack_rows(Unpacked& to, const PackedIndexRow* rows, int64_t n) {
  alignas(16) static constexpr uint8_t kBiased[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                                      12, 11, 10, 9,  8,  6,  4,  0};
  const hn::CappedTag<uint8_t, 64> d;
  const auto table = hn::LoadDup128(d, kBiased);
  const auto nibble = hn::Set(d, uint8_t{15});
  const hn::CappedTag<int32_t, 4> d32;
  const hn::Rebind<uint8_t, decltype(d32)> d8;
  auto largest = hn::Zero(d32);
  for (int64_t r = 0; r < n; ++r) {
    for (size_t i = 0; i < sizeof(rows[r].codes); i += hn::Lanes(d)) {
      const auto pairs = hn::LoadU(d, rows[r].codes + i);
      hn::StoreU(hn::TableLookupBytes(table, hn::And(pairs, nibble)), d, to.codes[r] + i);
      hn::StoreU(hn::TableLookupBytes(table, hn::And(hn::ShiftRight<4>(pairs), nibble)), d,
                 to.codes[r] + kIndexDim / 2 + i);
    }
    // 2^(code - 127); the code of NaN, 255, becomes an infinity first and a NaN with one more bit.
    const auto code = hn::PromoteTo(d32, hn::LoadU(d8, rows[r].scales));
    const auto nan_bit = hn::IfThenElseZero(hn::Eq(code, hn::Set(d32, 255)), hn::Set(d32, 1 << 22));
    const auto exponent = hn::Sub(code, hn::Set(d32, 127));
    hn::StoreU(hn::Or(hn::ShiftLeft<23>(code), nan_bit), d32,
               reinterpret_cast<int32_t*>(to.scales[r]));
    hn::StoreU(hn::ShiftLeft<23>(exponent), d32, to.steps[r]);
    largest = hn::Max(largest, hn::Abs(exponent));
  }
  to.plain = hn::GetLane(hn::MaxOfLanes(d32, largest)) <= kIndexPlainExponent;
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

// One block of a tile's products: the integer sums, then onto `products` as f32.
template <int kG, bool kPlain>
HWY_INLINE void add_block(Tile<kG>& products, const IndexQuery& query, const Unpacked& rows,
                          int64_t c, int64_t group, int b) {
  constexpr int64_t kR = kTileRows<kG>;
  const FloatTag d;
  const IntTag di;
  const int64_t heads = query.n_groups * kLanes, first = group * kLanes;
  BlockSum sums[kR][kG][kVecs];
  each_vector<kG>([&](int64_t r, int g, int v) HWY_ATTR {
    const int64_t head = first + g * kLanes + v * kVecLanes;
    sums[r][g][v].start(hn::LoadU(di, query.starts + b * heads + head));
  });
  for (int64_t i = 0; i < kWordsPerBlock; ++i) {
    // The block's low nibbles are 16 bytes in the first half, its high ones in the second.
    const int64_t word = b * 4 + (i & 3) + (i >> 2) * (kIndexDim / 8);
    hn::Vec<ByteTag> row[kR];
    for (int64_t r = 0; r < kR; ++r) row[r] = repeat_word(rows.codes[c + r] + 4 * word);
    each_vector<kG>([&](int64_t r, int g, int v) HWY_ATTR {
      const int64_t head = first + g * kLanes + v * kVecLanes;
      const auto q = hn::LoadU(SignedByteTag(), query.codes + 4 * (word * heads + head));
      sums[r][g][v].add(row[r], q);
    });
  }
  each_vector<kG>([&](int64_t r, int g, int v) HWY_ATTR {
    const float* at = query.scales + b * heads + first + g * kLanes + v * kVecLanes;
    FloatVec sum = hn::ConvertTo(d, sums[r][g][v].finish()), scale = hn::LoadU(d, at);
    if constexpr (kPlain) {
      const IntVec step = hn::Set(di, rows.steps[c + r][b]);
      scale = hn::BitCast(d, hn::Add(hn::BitCast(di, scale), step));
    } else {
      sum = hn::Mul(sum, scale);
      scale = hn::Set(d, rows.scales[c + r][b]);
    }
    FloatVec& p = products[r][g].v[v];
    p = b == 0 ? hn::Mul(sum, scale) : hn::MulAdd(sum, scale, p);
  });
}

template <int kG, bool kPlain>
HWY_INLINE void score_rows(float* out, const IndexQuery& query, const Unpacked& rows, int64_t n) {
  constexpr int64_t kR = kTileRows<kG>;
  for (int64_t c = 0; c < n; c += kR) {
    LaneSums scores[kR];
    clear(scores, kR);
    for (int64_t group = 0; group < query.n_groups; group += kG) {
      Tile<kG> products;
      for (int b = 0; b < kBlocks; ++b) {
        add_block<kG, kPlain>(products, query, rows, c, group, b);
      }
      add_heads<kG>(scores, products, query.weights + group * kLanes);
    }
    finish_rows(out + c, scores, std::min(kR, n - c));
  }
}

template <int kG>
void score_fp4(const IndexScoreArgs& args) {
  const auto packed = reinterpret_cast<const PackedIndexRow*>(args.rows);
  Unpacked rows;
  for (int64_t first = 0; first < args.n_rows; first += kUnpackedRows) {
    const int64_t n = std::min(kUnpackedRows, args.n_rows - first);
    unpack_rows(rows, packed + first, n);
    for (int64_t r = n; r % kTileRows<kG> != 0; ++r) {  // whole tiles; those scores are dropped
      std::memset(rows.codes[r], 0, sizeof(rows.codes[r]));
      std::memset(rows.scales[r], 0, sizeof(rows.scales[r]));
      std::memset(rows.steps[r], 0, sizeof(rows.steps[r]));
    }
    float* out = args.scores + first;
    if (rows.plain && args.query->plain) {
      score_rows<kG, true>(out, *args.query, rows, n);
    } else {
      score_rows<kG, false>(out, *args.query, rows, n);
    }
  }
}

void index_scores_fp4(const IndexScoreArgs& args) {
  args.query->n_groups % kGroups == 0 ? score_fp4<kGroups>(args) : score_fp4<1>(args);
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
