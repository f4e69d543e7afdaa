// Weights in blocks of 32 (Q8_0, MXFP4) against A8 activations, in integers (panel-inl.h). Codes
// become unsigned bytes by a bias, whose product with the sum of the activation codes the block sum
// starts from, negated: the exact integer of dot_sum().
// clang-format off: this order is how Highway compiles the file once for each target.
#include "base/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/dot_a8.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>
// clang-format on

#include "backend/cpu/kernels/block_rows-inl.h"
#include "quant/mxfp4.h"
#include "quant/q8_0.h"

HWY_BEFORE_NAMESPACE();
namespace ds4::cpu {
namespace HWY_NAMESPACE {

struct Q8_0Format {
  static constexpr int64_t kBlockBytes = sizeof(BlockQ8_0);
  static constexpr int kBias = 128;
  static constexpr int kMaxCode = 255;

  // The eight granules of a block that starts at `at`.
  static HWY_INLINE void codes(const Rows& rows, int64_t at, IntVec* out) {
    load_dwords_8(rows, at + 2, out);
    for (int i = 0; i < 8; ++i) {
      out[i] = hn::Xor(out[i], hn::Set(IntTag(), static_cast<int32_t>(0x80808080u)));
    }
  }

  static HWY_INLINE ScaleVec scale(const Rows& rows, int64_t at) {
    return half_to_float<false>(load_dword_of_4<0>(rows, at));
  }
};

struct Mxfp4Format {
  static constexpr int64_t kBlockBytes = sizeof(BlockMxfp4);
  static constexpr int kBias = 12;
  static constexpr int kMaxCode = 24;

  static HWY_INLINE void codes(const Rows& rows, int64_t at, IntVec* out) {
    // e2m1_doubled() plus the bias, by code.
    alignas(16) static constexpr uint8_t kTable[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                                       12, 11, 10, 9,  8,  6,  4,  0};
    const ByteTag d;
    const auto table = hn::LoadDup128(d, kTable);
    IntVec packed[4];
    load_dwords_4(rows, at + 1, packed);
    for (int i = 0; i < 4; ++i) {
      const auto low = hn::BitCast(d, bits_of<0, 4>(packed[i]));
      const auto high = hn::BitCast(d, bits_of<4, 4>(packed[i]));
      out[i] = hn::BitCast(IntTag(), hn::TableLookupBytes(table, low));
      out[4 + i] = hn::BitCast(IntTag(), hn::TableLookupBytes(table, high));
    }
  }

  // 2^(e - 127), halved for the doubled codes: e = 0 is 2^-127, e = 255 is NaN.
  static HWY_INLINE ScaleVec scale(const Rows& rows, int64_t at) {
    const IntTag d;
    const IntVec e = byte_of<0>(load_dword_of_4<0>(rows, at));
    IntVec bits = hn::ShiftLeft<23>(e);
    bits = hn::IfThenElse(hn::Eq(e, hn::Zero(d)), hn::Set(d, 0x00400000), bits);
    bits = hn::IfThenElse(hn::Eq(e, hn::Set(d, 255)), hn::Set(d, 0x7fc00000), bits);
    return hn::Mul(hn::BitCast(ScaleTag(), bits), hn::Set(ScaleTag(), 0.5f));
  }
};

template <class Blocks>
struct A8Format {
  struct Panel {
    int64_t n_blocks = 0;
    alignas(64) float scale[8 * kL];
    alignas(64) int32_t codes[64 * kL];
  };

  // What a block sum starts from: the codes' bias taken off.
  static HWY_INLINE IntVec start(const ActivationGroup& x, int64_t b) {
    return hn::Set(IntTag(), -Blocks::kBias * x.sums[b]);
  }
  static HWY_INLINE ScaleVec finish(ScaleVec sum, ScaleVec scale, float x_scale, IntVec integers) {
    const ScaleTag d;
    return hn::MulAdd(hn::Mul(scale, hn::Set(d, x_scale)), hn::ConvertTo(d, integers), sum);
  }

  static HWY_INLINE void build(Panel& panel, const Rows& rows, int64_t g, int64_t cols) {
    const int64_t at = g * 8 * Blocks::kBlockBytes;
    panel.n_blocks = cols / kA8Elems;
    for (int64_t b = 0; b < panel.n_blocks; ++b) {
      const int64_t block = at + b * Blocks::kBlockBytes;
      IntVec codes[8];
      Blocks::codes(rows, block, codes);
      hn::Store(Blocks::scale(rows, block), ScaleTag(), panel.scale + b * kL);
      for (int i = 0; i < 8; ++i) hn::Store(codes[i], IntTag(), panel.codes + (8 * b + i) * kL);
    }
  }

  template <int kX>
  static HWY_INLINE void multiply(ScaleVec (&sum)[kX], const Panel& panel,
                                  const ActivationGroup* const (&x)[kX]) {
    for (int64_t b = 0; b < panel.n_blocks; ++b) {
      IntVec integers[kX];
      for (int i = 0; i < kX; ++i) integers[i] = start(*x[i], b);
      for (int g = 0; g < 8; ++g) {
        const IntVec codes = hn::Load(IntTag(), panel.codes + (8 * b + g) * kL);
        for (int i = 0; i < kX; ++i) {
          const IntVec q = broadcast(x[i]->q + 32 * b + 4 * g);
          integers[i] = add_products<Blocks::kMaxCode>(integers[i], codes, q);
        }
      }
      const ScaleVec scale = hn::Load(ScaleTag(), panel.scale + b * kL);
      for (int i = 0; i < kX; ++i) sum[i] = finish(sum[i], scale, x[i]->d[b], integers[i]);
    }
  }

  static HWY_INLINE ScaleVec direct(ScaleVec sum, const Rows& rows, int64_t g, int64_t cols,
                                    const ActivationGroup& x) {
    const int64_t at = g * 8 * Blocks::kBlockBytes, n_blocks = cols / kA8Elems;
    for (int64_t b = 0; b < n_blocks; ++b) {
      const int64_t block = at + b * Blocks::kBlockBytes;
      IntVec codes[8];
      Blocks::codes(rows, block, codes);
      IntVec low = start(x, b), high = hn::Zero(IntTag());
      for (int i = 0; i < 4; ++i) {
        const int8_t* q = x.q + 32 * b + 4 * i;
        low = add_products<Blocks::kMaxCode>(low, codes[i], broadcast(q));
        high = add_products<Blocks::kMaxCode>(high, codes[4 + i], broadcast(q + 16));
      }
      sum = finish(sum, Blocks::scale(rows, block), x.d[b], hn::Add(low, high));
    }
    return sum;
  }
};

void dot_q8_0(const DotArgs& args) { dot_rows<A8Format<Q8_0Format>>(args); }
void dot_mxfp4(const DotArgs& args) { dot_rows<A8Format<Mxfp4Format>>(args); }

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
