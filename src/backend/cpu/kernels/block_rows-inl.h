// The loop over weight rows that all block formats share (panel-inl.h): groups of rows against one
// activation row as they are unpacked, or, where there are several, through a panel in the
// first-level cache that is unpacked once and meets all of them. Compiled once per target.
//
// A Format tells, for the 256 columns of one activation group (fewer at the end of a row):
//   Panel                          the unpacked form of a group: codes by granule, scales by lane
//   build(panel, rows, g, cols)    unpacks columns 256 g ... of the rows
//   multiply<kX>(acc, panel, x)    acc[i] += the group's part of w . x[i], in the documented order
//   direct(acc, rows, g, cols, x)  build and multiply for one x without the way through memory
#if defined(DS4_BACKEND_CPU_BLOCK_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DS4_BACKEND_CPU_BLOCK_ROWS_INL_H_
#undef DS4_BACKEND_CPU_BLOCK_ROWS_INL_H_
#else
#define DS4_BACKEND_CPU_BLOCK_ROWS_INL_H_
#endif

#include "backend/cpu/kernels/panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ds4::cpu {
namespace HWY_NAMESPACE {

inline constexpr int64_t kGroupCols = kActivationGroupElems;

// Activation rows that share each load of a panel's codes.
inline constexpr int kTileX = kL == 16 ? 8 : 4;

HWY_INLINE const ActivationGroup* activation_row(const DotArgs& args, int64_t i) {
  return static_cast<const ActivationGroup*>(args.x[i]);
}

HWY_INLINE void store_sums(const DotArgs& args, int64_t i, int64_t first, ScaleVec sum) {
  float* out = args.out + i * args.out_stride + first;
  const int64_t n = args.n_w - first;
  if (n >= kL) {
    hn::StoreU(sum, ScaleTag(), out);
  } else {
    hn::StoreN(sum, ScaleTag(), out, static_cast<size_t>(n));
  }
}

// Rows are read side by side, which memory does not like: so while one group is multiplied, the
// next one, which stands behind it in one piece, is fetched in order, a part for each step.
class Prefetch {
 public:
  HWY_INLINE Prefetch(const DotArgs& args, int64_t first, int64_t n_steps)
      : at_(first + kL < args.n_w ? args.w + (first + kL) * args.w_stride : args.next),
        step_bytes_(kL * args.w_stride / n_steps),
        // The same number of lines for every step: a loop that ends at varying counts costs more
        // than it fetches.
        n_lines_(at_ != nullptr ? (step_bytes_ + 63) / 64 : 0) {}
  HWY_INLINE void step() {
    // Into the second level: the first is too small for a group, and is needed for this one.
    for (int64_t i = 0; i < n_lines_; ++i) __builtin_prefetch(at_ + 64 * i, 0, 2);
    if (at_ != nullptr) at_ += step_bytes_;
  }

 private:
  const std::byte* at_;
  int64_t step_bytes_;
  int64_t n_lines_;
};

template <class Format, int kX>
HWY_INLINE void multiply_tile(float* acc, const typename Format::Panel& panel, const DotArgs& args,
                              int64_t i, int64_t g) {
  const ScaleTag d;
  const ActivationGroup* x[kX];
  ScaleVec sum[kX];
  for (int b = 0; b < kX; ++b) {
    x[b] = activation_row(args, i + b) + g;
    sum[b] = hn::Load(d, acc + (i + b) * kL);
  }
  Format::template multiply<kX>(sum, panel, x);
  for (int b = 0; b < kX; ++b) hn::Store(sum[b], d, acc + (i + b) * kL);
}

template <class Format>
HWY_INLINE void multiply_all(float* acc, const typename Format::Panel& panel, const DotArgs& args,
                             int64_t g) {
  int64_t i = 0;
  for (; i + kTileX <= args.n_x; i += kTileX) {
    multiply_tile<Format, kTileX>(acc, panel, args, i, g);
  }
  if (i + 4 <= args.n_x) {
    multiply_tile<Format, 4>(acc, panel, args, i, g);
    i += 4;
  }
  if (i + 2 <= args.n_x) {
    multiply_tile<Format, 2>(acc, panel, args, i, g);
    i += 2;
  }
  if (i < args.n_x) multiply_tile<Format, 1>(acc, panel, args, i, g);
}

template <class Format>
void dot_rows(const DotArgs& args) {
  for (int64_t first = 0; first < args.n_w; first += kL) {
    const Rows rows = group_rows(args, first);
    Prefetch prefetch(args, first, (args.cols + kGroupCols - 1) / kGroupCols);
    if (args.n_x == 1) {
      ScaleVec sum = hn::Zero(ScaleTag());
      for (int64_t col = 0, g = 0; col < args.cols; col += kGroupCols, ++g) {
        const int64_t n = HWY_MIN(kGroupCols, args.cols - col);
        prefetch.step();
        sum = Format::direct(sum, rows, g, n, activation_row(args, 0)[g]);
      }
      store_sums(args, 0, first, sum);
      continue;
    }
    alignas(64) float acc[kMaxDotRows * kL];
    std::memset(acc, 0, sizeof(float) * static_cast<size_t>(args.n_x * kL));
    for (int64_t col = 0, g = 0; col < args.cols; col += kGroupCols, ++g) {
      typename Format::Panel panel;
      prefetch.step();
      Format::build(panel, rows, g, HWY_MIN(kGroupCols, args.cols - col));
      multiply_all<Format>(acc, panel, args, g);
    }
    for (int64_t i = 0; i < args.n_x; ++i) {
      store_sums(args, i, first, hn::Load(ScaleTag(), acc + i * kL));
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ds4::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
