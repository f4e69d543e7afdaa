// Projections. Threads take weight rows; within a thread each run of kMaxDotRows activation rows
// meets all of them, so that a weight row is decoded once per run and the run stays in the
// second-level cache.
#include <algorithm>

#include "backend/cpu/cpu_ops.h"
#include "quant/codec.h"

namespace ds4::cpu {
namespace {

// Widest weight row that is decoded to f32 on the stack.
constexpr int64_t kMaxDecodedCols = 32768;

}  // namespace

void CpuOps::dot(const Form& form, const DotArgs& args) const {
  const DType type = form.w.dtype();
  switch (type) {
    case DType::kF32:
      return kernels_.dot_f32(args);
    case DType::kF16:
      return kernels_.dot_f16(args);
    case DType::kBF16:
      return kernels_.dot_bf16(args);
    default:
      break;
  }
  if (options_.integer_activations) {
    switch (type) {
      case DType::kQ8_0:
        return form.packed ? kernels_.dot_packed_q8_0(args) : kernels_.dot_q8_0(args);
      case DType::kMXFP4:
        return kernels_.dot_mxfp4(args);
      case DType::kQ4_K:
        return kernels_.dot_q4_k(args);
      case DType::kQ2_K:
        return kernels_.dot_q2_k(args);
      case DType::kIQ2_XXS:
        return kernels_.dot_iq2_xxs(args);
      default:
        break;
    }
  }
  DS4_CHECK(args.cols <= kMaxDecodedCols);
  alignas(64) float decoded[kMaxDecodedCols];
  DotArgs row = args;
  row.w = reinterpret_cast<const std::byte*>(decoded);
  row.n_w = 1;
  for (int64_t j = 0; j < args.n_w; ++j) {
    decode_row(type, args.w + j * args.w_stride, decoded, args.cols);
    row.out = args.out + j;
    kernels_.dot_f32(row);
  }
}

void CpuOps::project_rows(float* out, int64_t out_stride, const Form& form, int64_t n_groups,
                          int64_t begin, int64_t end) const {
  const ConstTensor w = form.w;
  const int64_t rows_each = w.dim(0) / n_groups;
  const int64_t n_rows = activations_.n_rows() / n_groups;
  const void* x[kMaxDotRows];
  for (int64_t first = 0; first < n_rows; first += kMaxDotRows) {
    const int64_t n_x = std::min(kMaxDotRows, n_rows - first);
    for (int64_t o = begin; o < end;) {
      const int64_t group = o / rows_each;
      const int64_t n_w = std::min(end, (group + 1) * rows_each) - o;
      for (int64_t i = 0; i < n_x; ++i) x[i] = activations_.row((first + i) * n_groups + group);
      dot(form, {.w = w.row_data(o),
                 .w_stride = w.row_stride(),
                 .n_w = n_w,
                 .cols = w.dim(1),
                 .x = x,
                 .n_x = n_x,
                 .out = out + first * out_stride + o,
                 .out_stride = out_stride});
      o += n_w;
    }
  }
}

void CpuOps::do_linear(Tensor out, ConstTensor x, ConstTensor w) {
  do_grouped_linear(out, x, w, 1);
}

void CpuOps::do_grouped_linear(Tensor out, ConstTensor x, ConstTensor w, int64_t n_groups) {
  if (x.dim(0) == 0) return;
  activations_.prepare(activation_form(w.dtype(), options_.integer_activations), x, n_groups,
                       pool_);
  const int64_t out_stride = out.row_stride() / static_cast<int64_t>(sizeof(float));
  // A group of rows that shares its inputs must be whole groups of a copy's rows.
  const Form form = w.dim(0) / n_groups % kRowStep == 0 ? form_of(w) : Form{w, false};
  split_rows(w.dim(0), w.dim(1) * x.dim(0), [&](int64_t begin, int64_t end) {
    project_rows(out.row<float>(0), out_stride, form, n_groups, begin, end);
  });
}

}  // namespace ds4::cpu
