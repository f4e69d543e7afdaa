// Weights in F32, F16 or BF16 against f32 activations; the order of additions is in lanes-inl.h.
// clang-format off: this order is how Highway compiles the file once for each target.
#include "base/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/dot_float.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>
// clang-format on

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ds4::cpu {
namespace HWY_NAMESPACE {

template <class T>
const T* weight_row(const DotArgs& args, int64_t j) {
  return reinterpret_cast<const T*>(args.w + j * args.w_stride);
}

// Short rows are over before the machine has seen that they are read in order, so the four after
// the next four are asked for. Long ones it sees by itself.
HWY_INLINE void prefetch_rows(const DotArgs& args, int64_t j) {
  constexpr int64_t kShortRows = 8192;  // bytes of four rows
  const int64_t bytes = 4 * args.w_stride;
  if (bytes > kShortRows || j + 8 >= args.n_w) return;
  const std::byte* at = args.w + (j + 8) * args.w_stride;
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(at + i, 0, 3);
}

// One activation row: four weight rows at a time, because a single sum would wait for itself.
template <class T>
void dot_one(const DotArgs& args) {
  const float* const x[1] = {static_cast<const float*>(args.x[0])};
  int64_t j = 0;
  for (; j + 4 <= args.n_w; j += 4) {
    prefetch_rows(args, j);
    const T* const w[4] = {weight_row<T>(args, j), weight_row<T>(args, j + 1),
                           weight_row<T>(args, j + 2), weight_row<T>(args, j + 3)};
    dot_tile<4, 1>(w, x, args.cols, args.out + j, args.out_stride);
  }
  for (; j < args.n_w; ++j) {
    const T* const w[1] = {weight_row<T>(args, j)};
    dot_tile<1, 1>(w, x, args.cols, args.out + j, args.out_stride);
  }
}

// kW weight rows against all activation rows, four at a time.
template <int kW, class T>
void dot_weight_rows(const DotArgs& args, int64_t j) {
  const auto* rows = reinterpret_cast<const float* const*>(args.x);
  const T* w[kW];
  for (int a = 0; a < kW; ++a) w[a] = weight_row<T>(args, j + a);
  float* out = args.out + j;
  int64_t i = 0;
  for (; i + 4 <= args.n_x; i += 4) {
    const float* const x[4] = {rows[i], rows[i + 1], rows[i + 2], rows[i + 3]};
    dot_tile<kW, 4>(w, x, args.cols, out + i * args.out_stride, args.out_stride);
  }
  for (; i < args.n_x; ++i) {
    const float* const x[1] = {rows[i]};
    dot_tile<kW, 1>(w, x, args.cols, out + i * args.out_stride, args.out_stride);
  }
}

// Several activation rows: four weight rows as well, where the registers hold 16 sums.
template <class T>
void dot_many(const DotArgs& args) {
  int64_t j = 0;
  if constexpr (kVecs == 1) {
    for (; j + 4 <= args.n_w; j += 4) {
      prefetch_rows(args, j);
      dot_weight_rows<4, T>(args, j);
    }
  }
  for (; j < args.n_w; ++j) dot_weight_rows<1, T>(args, j);
}

template <class T>
void dot_rows(const DotArgs& args) {
  if (args.n_x == 1) {
    dot_one<T>(args);
  } else {
    dot_many<T>(args);
  }
}

void dot_f32(const DotArgs& args) { dot_rows<float>(args); }
void dot_f16(const DotArgs& args) { dot_rows<hwy::float16_t>(args); }
void dot_bf16(const DotArgs& args) { dot_rows<hwy::bfloat16_t>(args); }

}  // namespace HWY_NAMESPACE
}  // namespace ds4::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds4::cpu {

HWY_EXPORT(dot_f32);
HWY_EXPORT(dot_f16);
HWY_EXPORT(dot_bf16);

void add_float_dots(Kernels& kernels) {
  kernels.dot_f32 = HWY_DYNAMIC_POINTER(dot_f32);
  kernels.dot_f16 = HWY_DYNAMIC_POINTER(dot_f16);
  kernels.dot_bf16 = HWY_DYNAMIC_POINTER(dot_bf16);
}

}  // namespace ds4::cpu
#endif
