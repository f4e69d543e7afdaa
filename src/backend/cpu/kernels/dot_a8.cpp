// Weights in blocks of 32 (Q8_0, MXFP4) against A8 activations, in integers.
//
// Per block: codes become unsigned bytes by a bias, four byte products at a time are added into i32
// lanes (one instruction where there is VNNI), and bias * sum(q) is taken off again: the exact
// integer of dot_sum(). Blocks are then weighted in f32 and added as eight partial sums, block b
// into sum b mod 8, ascending; at the end 8 -> 4 -> 2 -> 1 pairwise. No fused operations: what
// dot_block() gives, added in this order, has the same bits on every target.
// clang-format off: this order is how Highway compiles the file once for each target.
#include "base/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/dot_a8.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>
// clang-format on

#include <cstring>

#include "backend/cpu/kernels/kernels.h"
#include "quant/mxfp4.h"
#include "quant/q8_0.h"

HWY_BEFORE_NAMESPACE();
namespace ds4::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A block of 32 codes is one vector of 32 bytes or two of 16; eight block sums likewise.
using ByteTag = hn::CappedTag<uint8_t, 32>;
using SumTag = hn::CappedTag<int32_t, 8>;
using ScaleTag = hn::CappedTag<float, 8>;
using ByteVec = hn::Vec<ByteTag>;
using SumVec = hn::Vec<SumTag>;
using ScaleVec = hn::Vec<ScaleTag>;
constexpr int kByteLanes = static_cast<int>(hn::MaxLanes(ByteTag()));
constexpr int kSumLanes = static_cast<int>(hn::MaxLanes(SumTag()));
constexpr int kParts = 32 / kByteLanes;
static_assert(kParts == 8 / kSumLanes);

struct Codes {
  ByteVec v[kParts];
};

struct Q8_0Format {
  using Block = BlockQ8_0;
  static constexpr int32_t kBias = 128;

  static HWY_INLINE Codes codes(const Block& block) {
    const ByteTag d;
    Codes out;
    for (int p = 0; p < kParts; ++p) {
      const auto* q = reinterpret_cast<const uint8_t*>(block.q) + p * kByteLanes;
      out.v[p] = hn::Xor(hn::LoadU(d, q), hn::Set(d, uint8_t{128}));
    }
    return out;
  }

  static HWY_INLINE void scales(const Block* blocks, float* out) {
    hwy::float16_t halves[8];
    for (int b = 0; b < 8; ++b) std::memcpy(&halves[b], &blocks[b].d, sizeof(halves[b]));
    const ScaleTag d;
    const hn::Rebind<hwy::float16_t, ScaleTag> dh;
    for (int i = 0; i < 8; i += kSumLanes) {
      hn::Store(hn::PromoteTo(d, hn::LoadU(dh, halves + i)), d, out + i);
    }
  }
};

struct Mxfp4Format {
  using Block = BlockMxfp4;
  static constexpr int32_t kBias = 12;

  // A template so that the branch for the other width need not compile.
  template <class Tag = ByteTag>
  static HWY_INLINE Codes codes(const Block& block) {
    // e2m1_doubled() plus the bias, by code.
    alignas(16) static constexpr uint8_t kTable[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                                       12, 11, 10, 9,  8,  6,  4,  0};
    const Tag d;
    const hn::CappedTag<uint8_t, 16> d16;
    const auto packed = hn::LoadU(d16, block.codes);
    const auto low = hn::And(packed, hn::Set(d16, uint8_t{15}));
    const auto high = hn::ShiftRight<4>(packed);
    const auto table = hn::LoadDup128(d, kTable);
    Codes out;
    if constexpr (kParts == 1) {
      out.v[0] = hn::TableLookupBytes(table, hn::Combine(d, high, low));
    } else {
      out.v[0] = hn::TableLookupBytes(table, low);
      out.v[kParts - 1] = hn::TableLookupBytes(table, high);
    }
    return out;
  }

  static HWY_INLINE void scales(const Block* blocks, float* out) {
    for (int b = 0; b < 8; ++b) out[b] = e8m0_to_f32(blocks[b].e) * 0.5f;
  }
};

// Eight weight blocks, ready to meet any number of activation rows.
struct WeightGroup {
  Codes codes[8];
  alignas(32) float scale[8];
};

template <class Format>
HWY_INLINE void load_group(WeightGroup& group, const typename Format::Block* blocks) {
  for (int b = 0; b < 8; ++b) group.codes[b] = Format::codes(blocks[b]);
  Format::scales(blocks, group.scale);
}

// Sums of four blocks' lanes, in each 128-bit part: [block 0, 1, 2, 3] of that part.
HWY_INLINE SumVec add_across(SumVec s0, SumVec s1, SumVec s2, SumVec s3) {
  const SumTag d;
  const SumVec s02 = hn::Add(hn::InterleaveLower(d, s0, s2), hn::InterleaveUpper(d, s0, s2));
  const SumVec s13 = hn::Add(hn::InterleaveLower(d, s1, s3), hn::InterleaveUpper(d, s1, s3));
  return hn::Add(hn::InterleaveLower(d, s02, s13), hn::InterleaveUpper(d, s02, s13));
}

struct GroupSums {
  SumVec v[kParts];
};

// The integer dot products of eight blocks, block b in lane b.
template <class Format>
HWY_INLINE GroupSums group_sums(const WeightGroup& w, const A8Group& a) {
  const SumTag d;
  const hn::RebindToSigned<ByteTag> d8;
  SumVec lane[8];
  for (int b = 0; b < 8; ++b) {
    lane[b] = hn::Zero(d);
    for (int p = 0; p < kParts; ++p) {
      const auto q = hn::LoadU(d8, a.q + 32 * b + p * kByteLanes);
      lane[b] = hn::SumOfMulQuadAccumulate(d, w.codes[b].v[p], q, lane[b]);
    }
  }
  const SumVec low = add_across(lane[0], lane[1], lane[2], lane[3]);
  const SumVec high = add_across(lane[4], lane[5], lane[6], lane[7]);
  GroupSums sums;
  if constexpr (kParts == 1) {
    sums.v[0] = hn::Add(hn::ConcatLowerLower(d, high, low), hn::ConcatUpperUpper(d, high, low));
  } else {
    sums.v[0] = low;
    sums.v[kParts - 1] = high;
  }
  for (int p = 0; p < kParts; ++p) {
    const SumVec q_sums = hn::LoadU(d, a.sums + p * kSumLanes);
    sums.v[p] = hn::Sub(sums.v[p], hn::Mul(q_sums, hn::Set(d, Format::kBias)));
  }
  return sums;
}

struct RowSum {
  ScaleVec v[kParts];
};

template <class Format>
HWY_INLINE void add_group(RowSum& sum, const WeightGroup& w, const A8Group& a) {
  const ScaleTag d;
  const GroupSums integers = group_sums<Format>(w, a);
  for (int p = 0; p < kParts; ++p) {
    const ScaleVec scale =
        hn::Mul(hn::LoadU(d, w.scale + p * kSumLanes), hn::LoadU(d, a.d + p * kSumLanes));
    sum.v[p] = hn::Add(sum.v[p], hn::Mul(scale, hn::ConvertTo(d, integers.v[p])));
  }
}

HWY_INLINE float add_lanes(const RowSum& sum) {
  const ScaleTag d;
  alignas(32) float lane[8];
  for (int p = 0; p < kParts; ++p) hn::Store(sum.v[p], d, lane + p * kSumLanes);
  for (int width = 4; width > 0; width /= 2) {
    for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
  }
  return lane[0];
}

// One weight row against kX activation rows. A last group of fewer than eight blocks is filled up
// with zero blocks, which add +0 to their lanes.
template <class Format, int kX>
HWY_INLINE void dot_tile(const typename Format::Block* w, int64_t n_blocks, const void* const* x,
                         float* out, int64_t out_stride) {
  RowSum sums[kX];
  for (int i = 0; i < kX; ++i) {
    for (int p = 0; p < kParts; ++p) sums[i].v[p] = hn::Zero(ScaleTag());
  }
  WeightGroup group;
  const int64_t n_groups = n_blocks / 8;
  for (int64_t g = 0; g < n_groups; ++g) {
    load_group<Format>(group, w + 8 * g);
    for (int i = 0; i < kX; ++i) {
      add_group<Format>(sums[i], group, static_cast<const A8Group*>(x[i])[g]);
    }
  }
  if (n_blocks % 8 != 0) {
    typename Format::Block filled[8] = {};
    const int64_t n_left = n_blocks % 8;
    std::memcpy(filled, w + 8 * n_groups, static_cast<size_t>(n_left) * sizeof(filled[0]));
    load_group<Format>(group, filled);
    for (int i = 0; i < kX; ++i) {
      add_group<Format>(sums[i], group, static_cast<const A8Group*>(x[i])[n_groups]);
    }
  }
  for (int i = 0; i < kX; ++i) out[i * out_stride] = add_lanes(sums[i]);
}

template <class Format>
void dot_rows(const DotArgs& args) {
  const int64_t n_blocks = args.cols / kA8Elems;
  for (int64_t j = 0; j < args.n_w; ++j) {
    const auto* w = reinterpret_cast<const typename Format::Block*>(args.w + j * args.w_stride);
    float* out = args.out + j;
    int64_t i = 0;
    for (; i + 4 <= args.n_x; i += 4) {
      dot_tile<Format, 4>(w, n_blocks, args.x + i, out + i * args.out_stride, args.out_stride);
    }
    for (; i < args.n_x; ++i) {
      dot_tile<Format, 1>(w, n_blocks, args.x + i, out + i * args.out_stride, args.out_stride);
    }
  }
}

void dot_q8_0(const DotArgs& args) { dot_rows<Q8_0Format>(args); }
void dot_mxfp4(const DotArgs& args) { dot_rows<Mxfp4Format>(args); }

}  // namespace HWY_NAMESPACE
}  // namespace ds4::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds4::cpu {

HWY_EXPORT(dot_q8_0);
HWY_EXPORT(dot_mxfp4);

void add_a8_dots(Kernels& kernels) {
  kernels.dot_q8_0 = HWY_DYNAMIC_POINTER(dot_q8_0);
  kernels.dot_mxfp4 = HWY_DYNAMIC_POINTER(dot_mxfp4);
}

}  // namespace ds4::cpu
#endif
