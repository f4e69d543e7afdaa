// Weights in blocks of 256 (Q4_K, Q2_K, IQ2_XXS) against Q8_K activations, in integers.
//
// A weight block is unpacked once into unsigned byte codes and integer scales, which is the same
// work for one activation row or for many, and the three formats then share one dot product:
//   scaled = sum_i scale[i] codes[i] q[i],   mins = sum_j min[j] sums[j]
// exact in i32 like dot_sums() and dot_sum(). Blocks are finished in f32 with the operations of
// dot_block() and added in ascending order: the same bits as the scalar code on every target.
// clang-format off: this order is how Highway compiles the file once for each target.
#include "base/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/dot_q8_k.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>
// clang-format on

#include <array>
#include <cstring>

#include "backend/cpu/kernels/kernels.h"
#include "quant/iq2_xxs.h"
#include "quant/q2_k.h"
#include "quant/q4_k.h"

#ifndef DS4_BACKEND_CPU_DOT_Q8_K_ONCE
#define DS4_BACKEND_CPU_DOT_Q8_K_ONCE
namespace ds4::cpu {

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

}  // namespace ds4::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace ds4::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using ByteTag = hn::CappedTag<uint8_t, 32>;
using SumTag = hn::CappedTag<int32_t, 8>;
using ShortTag = hn::CappedTag<int16_t, 16>;
using QuarterTag = hn::CappedTag<int32_t, 4>;
constexpr int kByteLanes = static_cast<int>(hn::MaxLanes(ByteTag()));
constexpr int kShortLanes = static_cast<int>(hn::MaxLanes(ShortTag()));

struct UnpackedBlock {
  alignas(64) uint8_t codes[256];
  alignas(64) int32_t scale[64];  // of codes 4i .. 4i + 3
  alignas(32) int16_t min[16];    // of values 16j .. 16j + 15
  float d = 0;
  float dmin = 0;
};

HWY_INLINE void set_scale(UnpackedBlock& out, int quarter, int32_t scale) {
  const QuarterTag d;
  hn::Store(hn::Set(d, scale), d, out.scale + 4 * quarter);
}

struct Q4KFormat {
  using Block = BlockQ4K;

  static HWY_INLINE void unpack(UnpackedBlock& out, const Block& block) {
    const ByteTag d;
    for (int g = 0; g < 4; ++g) {
      for (int p = 0; p < 32; p += kByteLanes) {
        const auto packed = hn::LoadU(d, block.codes + 32 * g + p);
        hn::Store(hn::And(packed, hn::Set(d, uint8_t{15})), d, out.codes + 64 * g + p);
        hn::Store(hn::ShiftRight<4>(packed), d, out.codes + 64 * g + 32 + p);
      }
    }
    for (int j = 0; j < kQ4KSubBlocks; ++j) {
      set_scale(out, 2 * j, q4_k_scale(block, j));
      set_scale(out, 2 * j + 1, q4_k_scale(block, j));
      out.min[2 * j] = out.min[2 * j + 1] = static_cast<int16_t>(q4_k_min(block, j));
    }
    out.d = f16_to_f32(block.d);
    out.dmin = f16_to_f32(block.dmin);
  }

  static HWY_INLINE float finish(const UnpackedBlock& w, float a_d, int32_t scaled, int32_t mins) {
    return a_d * w.d * static_cast<float>(scaled) - a_d * w.dmin * static_cast<float>(mins);
  }
};

struct Q2KFormat {
  using Block = BlockQ2K;

  static HWY_INLINE void unpack(UnpackedBlock& out, const Block& block) {
    const ByteTag d;
    const auto mask = hn::Set(d, uint8_t{3});
    for (int h = 0; h < 2; ++h) {
      for (int p = 0; p < 32; p += kByteLanes) {
        const auto packed = hn::LoadU(d, block.codes + 32 * h + p);
        uint8_t* codes = out.codes + 128 * h + p;
        hn::Store(hn::And(packed, mask), d, codes);
        hn::Store(hn::And(hn::ShiftRight<2>(packed), mask), d, codes + 32);
        hn::Store(hn::And(hn::ShiftRight<4>(packed), mask), d, codes + 64);
        hn::Store(hn::ShiftRight<6>(packed), d, codes + 96);
      }
    }
    for (int j = 0; j < kQ2KSubBlocks; ++j) {
      set_scale(out, j, block.sc[j] & 15);
      out.min[j] = static_cast<int16_t>(block.sc[j] >> 4);
    }
    out.d = f16_to_f32(block.d);
    out.dmin = f16_to_f32(block.dmin);
  }

  static HWY_INLINE float finish(const UnpackedBlock& w, float a_d, int32_t scaled, int32_t mins) {
    return Q4KFormat::finish(w, a_d, scaled, mins);
  }
};

// Signed levels of at most 43 become unsigned by adding 43; what that adds to the sum is the
// minimum.
struct Iq2XxsFormat {
  using Block = BlockIq2Xxs;
  static constexpr int kBias = 43;

  static HWY_INLINE void unpack(UnpackedBlock& out, const Block& block) {
    alignas(64) uint64_t sign[32];
    for (int b = 0; b < kIq2XxsGroups; ++b) {
      const Iq2XxsGroup group = iq2_xxs_group(block, b);
      for (int g = 0; g < 4; ++g) {
        std::memcpy(out.codes + 32 * b + 8 * g, &iq2_xxs::kGrid[group.grid_index(g)], 8);
        sign[4 * b + g] = kSignBytes[group.b >> (7 * g) & 127u];
      }
      const int32_t scale = static_cast<int32_t>(2 * group.scale() + 1);
      set_scale(out, 2 * b, scale);
      set_scale(out, 2 * b + 1, scale);
      out.min[2 * b] = out.min[2 * b + 1] = static_cast<int16_t>(kBias * scale);
    }
    const ByteTag d;
    for (int i = 0; i < 256; i += kByteLanes) {
      const auto negative = hn::LoadU(d, reinterpret_cast<const uint8_t*>(sign) + i);
      const auto level = hn::Sub(hn::Xor(hn::Load(d, out.codes + i), negative), negative);
      hn::Store(hn::Add(level, hn::Set(d, uint8_t{kBias})), d, out.codes + i);
    }
    out.d = f16_to_f32(block.d);
  }

  static HWY_INLINE float finish(const UnpackedBlock& w, float a_d, int32_t scaled, int32_t mins) {
    return 0.125f * (a_d * w.d * static_cast<float>(scaled - mins));
  }
};

HWY_INLINE int32_t scaled_sum(const UnpackedBlock& w, const BlockQ8K& a) {
  const SumTag d;
  const hn::RebindToSigned<ByteTag> d8;
  auto sum = hn::Zero(d);
  for (int i = 0; i < 256; i += kByteLanes) {
    const auto products = hn::SumOfMulQuadAccumulate(d, hn::Load(ByteTag(), w.codes + i),
                                                     hn::LoadU(d8, a.q + i), hn::Zero(d));
    sum = hn::Add(sum, hn::Mul(products, hn::Load(d, w.scale + i / 4)));
  }
  return hn::ReduceSum(d, sum);
}

HWY_INLINE int32_t min_sum(const UnpackedBlock& w, const BlockQ8K& a) {
  const SumTag d;
  const ShortTag d16;
  auto sum = hn::Zero(d);
  for (int j = 0; j < 16; j += kShortLanes) {
    sum = hn::Add(sum,
                  hn::WidenMulPairwiseAdd(d, hn::Load(d16, w.min + j), hn::LoadU(d16, a.sums + j)));
  }
  return hn::ReduceSum(d, sum);
}

template <class Format>
void dot_rows(const DotArgs& args) {
  const int64_t n_blocks = args.cols / kQ8KElems;
  for (int64_t j = 0; j < args.n_w; ++j) {
    const auto* w = reinterpret_cast<const typename Format::Block*>(args.w + j * args.w_stride);
    float sums[kMaxDotRows];
    for (int64_t i = 0; i < args.n_x; ++i) sums[i] = 0;
    for (int64_t b = 0; b < n_blocks; ++b) {
      UnpackedBlock block;
      Format::unpack(block, w[b]);
      for (int64_t i = 0; i < args.n_x; ++i) {
        const BlockQ8K& a = static_cast<const BlockQ8K*>(args.x[i])[b];
        sums[i] += Format::finish(block, a.d, scaled_sum(block, a), min_sum(block, a));
      }
    }
    for (int64_t i = 0; i < args.n_x; ++i) args.out[i * args.out_stride + j] = sums[i];
  }
}

void dot_q4_k(const DotArgs& args) { dot_rows<Q4KFormat>(args); }
void dot_q2_k(const DotArgs& args) { dot_rows<Q2KFormat>(args); }
void dot_iq2_xxs(const DotArgs& args) { dot_rows<Iq2XxsFormat>(args); }

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
