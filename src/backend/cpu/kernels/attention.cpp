// A tile of the running softmax, and what it reads: packed rows as f32.
//
// Keys are values, so a tile of rows is decoded once and serves every head twice: its scores (a
// register tile of rows x heads, columns in lanes) and its values (heads x columns, rows one after
// the other). A tile of 32 rows of 512 is 64 KiB: the scores stream it from the second-level cache
// once for each group of heads, the values walk it in strips of 64 columns that stay in the first.
// clang-format off: this order is how Highway compiles the file once for each target.
#include "base/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/attention.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <bit>
#include <cmath>

#include "backend/cpu/kernels/exp-inl.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/lanes-inl.h"
#include "quant/packed_kv.h"

HWY_BEFORE_NAMESPACE();
namespace ds4::cpu {
namespace HWY_NAMESPACE {

// Heads that share a loaded row: as many as the registers of a target hold sums for.
inline constexpr int kTileHeads = kVecs == 1 ? 4 : 1;
inline constexpr int kTileRows = 4;
// Columns of the value sum that stay in registers, in units of kLanes, for four heads.
inline constexpr int kStripUnits = kVecs == 1 ? 4 : 1;
inline constexpr int64_t kTileUnits = kAttendTile / kLanes;
static_assert(kAttendTile % kLanes == 0 && kAttendTile % kTileRows == 0);

// E4M3 to f32: exponent and mantissa moved to f32's places are the value times 2^-120, subnormal
// codes as subnormal f32, and one multiplication does the rest. (By way of f16, whose subnormals
// cost no processor anything, it takes half as long again; codes below 2^-15 of a block's peak are
// rare.)
HWY_INLINE FloatVec e4m3_values(const uint8_t* codes, FloatVec scale_120) {
  const hn::Rebind<int8_t, FloatTag> d8;
  const hn::RebindToSigned<FloatTag> d32;
  const auto wide = hn::PromoteTo(d32, hn::LoadU(d8, reinterpret_cast<const int8_t*>(codes)));
  const auto bits =
      hn::And(hn::ShiftLeft<20>(wide), hn::Set(d32, static_cast<int32_t>(0x87f00000u)));
  return hn::Mul(hn::BitCast(FloatTag(), bits), scale_120);
}

void unpack_kv(float* out, const std::byte* row, int64_t width) {
  const auto bytes = reinterpret_cast<const uint8_t*>(row);
  const int64_t codes = width - kPackedKvRope;
  const uint8_t* scales = bytes + packed_kv_scales(width);
  for (int64_t b = 0; b < codes; b += kFp8BlockElems) {
    const uint32_t scale = scales[b / kFp8BlockElems];
    // NaN blocks, and scales that 2^120 would take out of range: peaks above 57344.
    if (scale > 254 - 120) return decode_packed_kv(bytes, out, width);
    const FloatVec scale_120 = hn::Set(FloatTag(), std::bit_cast<float>((scale + 120) << 23));
    for (int64_t i = b; i < b + kFp8BlockElems; i += kVecLanes) {
      hn::StoreU(e4m3_values(bytes + i, scale_120), FloatTag(), out + i);
    }
  }
  const auto rope = reinterpret_cast<const hwy::bfloat16_t*>(bytes + codes);
  for (int64_t i = 0; i < kPackedKvRope; i += kVecLanes) {
    hn::StoreU(load_floats(rope + i), FloatTag(), out + codes + i);
  }
}

// e[h][i .. i + 3] = q_h . rows for kH heads and four rows.
template <int kH>
HWY_INLINE void score_tile(float (*e)[kAttendTile], const AttendArgs& args, int64_t h, int64_t i) {
  const float* rows[kTileRows];
  // The last tile repeats its last row; those scores are overwritten.
  for (int64_t r = 0; r < kTileRows; ++r) rows[r] = args.rows[std::min(i + r, args.n_rows - 1)];
  const float* heads[kH];
  for (int b = 0; b < kH; ++b) heads[b] = args.q + (h + b) * args.head_dim;
  LaneSums sums[kTileRows][kH];
  for (int r = 0; r < kTileRows; ++r) {
    for (int b = 0; b < kH; ++b) {
      for (int v = 0; v < kVecs; ++v) sums[r][b].v[v] = hn::Zero(FloatTag());
    }
  }
  for (int64_t col = 0; col < args.head_dim; col += kLanes) {
    add_products<kTileRows, kH>(sums, rows, heads, col);
  }
  for (int b = 0; b < kH; ++b) {
    const auto four = add_lanes_of_four(sums[0][b], sums[1][b], sums[2][b], sums[3][b]);
    hn::StoreU(four, hn::CappedTag<float, 4>(), e[h + b] + i);
  }
}

// kH heads from `h` on, then fewer at a time: a thread's part need not be a multiple of kH.
template <int kH>
void tile_scores(float (*e)[kAttendTile], const AttendArgs& args, int64_t h) {
  for (; h + kH <= args.n_heads; h += kH) {
    for (int64_t i = 0; i < args.n_rows; i += kTileRows) score_tile<kH>(e, args, h, i);
  }
  if constexpr (kH > 1) tile_scores<kH / 2>(e, args, h);
}

// Scores become weights exp(scale s - max'). Sums over a tile: lane l adds e[l], e[l + 16], then
// lanes pairwise; rows that are not there weigh nothing.
void weigh_tile(float (*e)[kAttendTile], float* shrink, const AttendArgs& args) {
  const FloatTag d;
  alignas(64) float old_max[kMaxHeads], sums[kMaxHeads];
  const FloatVec scale = hn::Set(d, args.scale);
  for (int64_t h = 0; h < args.n_heads; ++h) {
    std::fill(e[h] + args.n_rows, e[h] + kAttendTile, -INFINITY);
    FloatVec top = hn::Set(d, args.max[h]);
    for (int64_t i = 0; i < kAttendTile; i += kVecLanes) {
      const FloatVec s = hn::Mul(hn::LoadU(d, e[h] + i), scale);
      top = hn::Max(top, s);
      hn::StoreU(s, d, e[h] + i);
    }
    const FloatVec max = hn::MaxOfLanes(d, top);
    LaneSums sum;
    for (int v = 0; v < kVecs; ++v) sum.v[v] = hn::Zero(d);
    for (int64_t unit = 0; unit < kTileUnits; ++unit) {
      for (int v = 0; v < kVecs; ++v) {
        float* at = e[h] + unit * kLanes + v * kVecLanes;
        const FloatVec weight = exp_of(d, hn::Sub(hn::LoadU(d, at), max));
        hn::StoreU(weight, d, at);
        sum.v[v] = hn::Add(sum.v[v], weight);
      }
    }
    old_max[h] = args.max[h];
    args.max[h] = hn::GetLane(max);
    sums[h] = add_lanes(sum);
  }
  for (int64_t h = 0; h < args.n_heads; h += kVecLanes) {
    const size_t n = static_cast<size_t>(std::min(kVecLanes, args.n_heads - h));
    const FloatVec factor =
        exp_of(d, hn::Sub(hn::LoadN(d, old_max + h, n), hn::LoadN(d, args.max + h, n)));
    hn::StoreN(factor, d, shrink + h, n);
    hn::StoreN(hn::MulAdd(hn::LoadN(d, args.sum + h, n), factor, hn::LoadN(d, sums + h, n)), d,
               args.sum + h, n);
  }
}

// out[h][dim ..] = out * shrink + sum_i e[h][i] rows_i[dim ..], i ascending, for kH heads and
// kUnits times 16 columns.
template <int kH, int kUnits>
HWY_INLINE void add_values(const AttendArgs& args, const float (*e)[kAttendTile],
                           const float* shrink, int64_t h, int64_t dim) {
  constexpr int kN = kUnits * kVecs;
  const FloatTag d;
  FloatVec sum[kH][kN];
  for (int b = 0; b < kH; ++b) {
    const float* out = args.out + (h + b) * args.head_dim + dim;
    const FloatVec factor = hn::Set(d, shrink[h + b]);
    for (int v = 0; v < kN; ++v) sum[b][v] = hn::Mul(hn::LoadU(d, out + v * kVecLanes), factor);
  }
  for (int64_t i = 0; i < args.n_rows; ++i) {
    const float* row = args.rows[i] + dim;
    FloatVec values[kN];
    for (int v = 0; v < kN; ++v) values[v] = hn::LoadU(d, row + v * kVecLanes);
    for (int b = 0; b < kH; ++b) {
      const FloatVec weight = hn::Set(d, e[h + b][i]);
      for (int v = 0; v < kN; ++v) sum[b][v] = hn::MulAdd(weight, values[v], sum[b][v]);
    }
  }
  for (int b = 0; b < kH; ++b) {
    float* out = args.out + (h + b) * args.head_dim + dim;
    for (int v = 0; v < kN; ++v) hn::StoreU(sum[b][v], d, out + v * kVecLanes);
  }
}

// The same for a strip of columns of all heads from `h` on.
template <int kH>
void add_strip(const AttendArgs& args, const float (*e)[kAttendTile], const float* shrink,
               int64_t h, int64_t dim) {
  for (; h + kH <= args.n_heads; h += kH) add_values<kH, kStripUnits>(args, e, shrink, h, dim);
  if constexpr (kH > 1) add_strip<kH / 2>(args, e, shrink, h, dim);
}

void attend(const AttendArgs& args) {
  alignas(64) float e[kMaxHeads][kAttendTile], shrink[kMaxHeads];
  tile_scores<kTileHeads>(e, args, 0);
  weigh_tile(e, shrink, args);
  for (int64_t dim = 0; dim < args.head_dim; dim += kStripUnits * kLanes) {
    add_strip<4>(args, e, shrink, 0, dim);
  }
}

void finish_attention(const AttendArgs& args, const float* sinks) {
  const FloatTag d;
  for (int64_t h = 0; h < args.n_heads; ++h) {
    const FloatVec rest = exp_of(d, hn::Set(d, sinks[h] - args.max[h]));
    const FloatVec total = hn::Add(hn::Set(d, args.sum[h]), rest);
    float* out = args.out + h * args.head_dim;
    for (int64_t i = 0; i < args.head_dim; i += kVecLanes) {
      hn::StoreU(hn::Div(hn::LoadU(d, out + i), total), d, out + i);
    }
  }
}

void exp_each(float* y, const float* x, int64_t n) {
  const FloatTag d;
  for (int64_t i = 0; i < n; i += kVecLanes) {
    const size_t some = static_cast<size_t>(std::min(kVecLanes, n - i));
    hn::StoreN(exp_of(d, hn::LoadN(d, x + i, some)), d, y + i, some);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ds4::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds4::cpu {

HWY_EXPORT(unpack_kv);
HWY_EXPORT(attend);
HWY_EXPORT(finish_attention);
HWY_EXPORT(exp_each);

void add_attention(Kernels& kernels) {
  kernels.unpack_kv = HWY_DYNAMIC_POINTER(unpack_kv);
  kernels.attend = HWY_DYNAMIC_POINTER(attend);
  kernels.finish_attention = HWY_DYNAMIC_POINTER(finish_attention);
  kernels.exp = HWY_DYNAMIC_POINTER(exp_each);
}

}  // namespace ds4::cpu
#endif
