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
    const IntVec e = byte_of(load_dword_of_4<0>(rows, at), 0);
    IntVec bits = hn::ShiftLeft<23>(e);
    bits = hn::IfThenElse(hn::Eq(e, hn::Zero(d)), hn::Set(d, 0x00400000), bits);
    bits = hn::IfThenElse(hn::Eq(e, hn::Set(d, 255)), hn::Set(d, 0x7fc00000), bits);
    return hn::Mul(hn::BitCast(ScaleTag(), bits), hn::Set(ScaleTag(), 0.5f));
  }
};

template <class Blocks>
struct A8Format {
  using Ahead = Fetch<kL * Blocks::kBlockBytes>;
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

  static HWY_INLINE void build(Panel& panel, const Rows& rows, int64_t g, int64_t cols,
                               Ahead& fetch) {
    const int64_t at = g * 8 * Blocks::kBlockBytes;
    panel.n_blocks = cols / kA8Elems;
    for (int64_t b = 0; b < panel.n_blocks; ++b) {
      const int64_t block = at + b * Blocks::kBlockBytes;
      IntVec codes[8];
      fetch.next();
      Blocks::codes(rows, block, codes);
      hn::Store(Blocks::scale(rows, block), ScaleTag(), panel.scale + b * kL);
      for (int i = 0; i < 8; ++i) hn::Store(codes[i], IntTag(), panel.codes + (8 * b + i) * kL);
    }
  }

  template <int kX, class AnyPanel>
  static HWY_INLINE void multiply(ScaleVec (&sum)[kX], const AnyPanel& panel,
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

  // The sum of one block, its granules given by code(i). Two chains, because one would wait.
  template <class Code>
  static HWY_INLINE IntVec block_sum(const ActivationGroup& x, int64_t b, Code code) {
    IntVec low = start(x, b), high = hn::Zero(IntTag());
    for (int i = 0; i < 4; ++i) {
      const int8_t* q = x.q + 32 * b + 4 * i;
      low = add_products<Blocks::kMaxCode>(low, code(i), broadcast(q));
      high = add_products<Blocks::kMaxCode>(high, code(4 + i), broadcast(q + 16));
    }
    return hn::Add(low, high);
  }

  static HWY_INLINE ScaleVec direct(ScaleVec sum, const Rows& rows, int64_t g, int64_t cols,
                                    const ActivationGroup& x, Ahead& fetch) {
    const int64_t at = g * 8 * Blocks::kBlockBytes, n_blocks = cols / kA8Elems;
    for (int64_t b = 0; b < n_blocks; ++b) {
      const int64_t block = at + b * Blocks::kBlockBytes;
      IntVec codes[8];
      fetch.next();
      Blocks::codes(rows, block, codes);
      const IntVec integers = block_sum(x, b, [&](int i) HWY_ATTR { return codes[i]; });
      sum = finish(sum, Blocks::scale(rows, block), x.d[b], integers);
    }
    return sum;
  }
};

// Q8_0 repacked: the panels of a group one after the other, scales as f16. As many bytes as before,
// and read in order. kFetches: Intel's hardware loses a stream at the end of each page of 4 KiB, so
// there a single row's panels are asked for kAhead panels before; AMD's follows it by itself and is
// only held up (docs/perf.md).
//
//   0                                     256 kL        272 kL
//   | granules [64][kL][4], biased codes  | d [8][kL]   |  of 256 columns of kL rows
template <bool kFetches>
struct PackedQ8_0Format {
  using Plain = A8Format<Q8_0Format>;
  using Ahead = NoFetch;
  static constexpr int64_t kCodeBytes = 256 * kL;
  static constexpr int64_t kPanelBytes = kCodeBytes + 16 * kL;
  static_assert(kPanelBytes == 8 * kL * static_cast<int64_t>(sizeof(BlockQ8_0)));
  static constexpr int64_t kAhead = 8;

  struct Panel {
    static constexpr int64_t n_blocks = 8;
    alignas(64) float scale[8 * kL];
    const int32_t* codes;
  };

  static HWY_INLINE const std::byte* panel_at(const Rows& rows, int64_t g) {
    return rows.row[0] + g * kPanelBytes;
  }
  static HWY_INLINE ScaleVec scale_at(const std::byte* panel, int64_t b) {
    const hn::Rebind<hwy::float16_t, ScaleTag> dh;
    const auto* halves = reinterpret_cast<const hwy::float16_t*>(panel + kCodeBytes);
    return hn::PromoteTo(ScaleTag(), hn::Load(dh, halves + b * kL));
  }

  static HWY_INLINE void build(Panel& panel, const Rows& rows, int64_t g, int64_t, Ahead&) {
    const std::byte* at = panel_at(rows, g);
    // Multiplying takes so long that the hardware loses track.
    fetch_bytes<kPanelBytes>(reinterpret_cast<uintptr_t>(at) + 2 * kPanelBytes);
    panel.codes = reinterpret_cast<const int32_t*>(at);
    for (int b = 0; b < 8; ++b) hn::Store(scale_at(at, b), ScaleTag(), panel.scale + b * kL);
  }

  template <int kX>
  static HWY_INLINE void multiply(ScaleVec (&sum)[kX], const Panel& panel,
                                  const ActivationGroup* const (&x)[kX]) {
    Plain::multiply<kX>(sum, panel, x);
  }

  static HWY_INLINE ScaleVec direct(ScaleVec sum, const Rows& rows, int64_t g, int64_t,
                                    const ActivationGroup& x, Ahead&) {
    const std::byte* at = panel_at(rows, g);
    const auto* codes = reinterpret_cast<const int32_t*>(at);
    for (int b = 0; b < 8; ++b) {
      if constexpr (kFetches) {
        constexpr int64_t kPart = kPanelBytes / 8;
        fetch_bytes<kPart, 2>(reinterpret_cast<uintptr_t>(at + b * kPart) + kAhead * kPanelBytes);
      }
      const IntVec integers = Plain::block_sum(
          x, b, [&](int i) HWY_ATTR { return hn::Load(IntTag(), codes + (8 * b + i) * kL); });
      sum = Plain::finish(sum, scale_at(at, b), x.d[b], integers);
    }
    return sum;
  }
};

void pack_q8_0(std::byte* out, const std::byte* w, int64_t n_rows, int64_t cols) {
  using Packed = PackedQ8_0Format<false>;
  const int64_t stride = cols / kQ8_0Elems * static_cast<int64_t>(sizeof(BlockQ8_0));
  const hn::Rebind<uint16_t, IntTag> d16;
  const hn::RebindToUnsigned<IntTag> du;
  for (int64_t first = 0; first < n_rows; first += kL) {
    Rows rows;
    for (int r = 0; r < kL; ++r) rows.row[r] = w + (first + r) * stride;
    for (int64_t b = 0; b < cols / kQ8_0Elems; ++b) {
      const int64_t at = b * static_cast<int64_t>(sizeof(BlockQ8_0));
      std::byte* panel = out + first * stride + b / 8 * Packed::kPanelBytes;
      IntVec codes[8];
      Q8_0Format::codes(rows, at, codes);
      for (int64_t i = 0; i < 8; ++i) {
        hn::Store(codes[i], IntTag(), reinterpret_cast<int32_t*>(panel) + (b % 8 * 8 + i) * kL);
      }
      const IntVec half = mask_with(load_dword_of_4<0>(rows, at), 0xffff);
      auto* halves = reinterpret_cast<uint16_t*>(panel + Packed::kCodeBytes);
      hn::Store(hn::TruncateTo(d16, hn::BitCast(du, half)), d16, halves + b % 8 * kL);
    }
  }
}

int64_t lane_rows() { return kL; }

void dot_packed_q8_0(const DotArgs& args) { dot_rows<PackedQ8_0Format<false>>(args); }
void dot_packed_q8_0_fetching(const DotArgs& args) { dot_rows<PackedQ8_0Format<true>>(args); }
void dot_q8_0(const DotArgs& args) { dot_rows<A8Format<Q8_0Format>>(args); }
void dot_mxfp4(const DotArgs& args) { dot_rows<A8Format<Mxfp4Format>>(args); }

}  // namespace HWY_NAMESPACE
}  // namespace ds4::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds4::cpu {

HWY_EXPORT(dot_q8_0);
HWY_EXPORT(dot_mxfp4);
HWY_EXPORT(dot_packed_q8_0);
HWY_EXPORT(dot_packed_q8_0_fetching);
HWY_EXPORT(pack_q8_0);
HWY_EXPORT(lane_rows);

namespace {

bool is_intel() {
#if HWY_ARCH_X86
  __builtin_cpu_init();
  return __builtin_cpu_is("intel") != 0;
#else
  return false;
#endif
}

}  // namespace

void add_a8_dots(Kernels& kernels) {
  kernels.dot_q8_0 = HWY_DYNAMIC_POINTER(dot_q8_0);
  kernels.dot_mxfp4 = HWY_DYNAMIC_POINTER(dot_mxfp4);
  kernels.dot_packed_q8_0_forms[0] = HWY_DYNAMIC_POINTER(dot_packed_q8_0);
  kernels.dot_packed_q8_0_forms[1] = HWY_DYNAMIC_POINTER(dot_packed_q8_0_fetching);
  kernels.dot_packed_q8_0 = kernels.dot_packed_q8_0_forms[is_intel() ? 1 : 0];
  kernels.pack_q8_0 = HWY_DYNAMIC_POINTER(pack_q8_0);
  const auto rows = HWY_DYNAMIC_POINTER(lane_rows);
  kernels.group_rows = rows();
}

}  // namespace ds4::cpu
#endif
