#pragma once
// The activation rows of one op in the form its weights are multiplied with: f32 as they come, or
// rounded to int8 once per row, however many weight rows and threads will read them.
#include <cstdint>

#include "backend/cpu/kernels/kernels.h"
#include "backend/host/scratch.h"
#include "base/thread_pool.h"
#include "tensor/tensor.h"

namespace ds4::cpu {

enum class ActivationForm {
  kF32,
  kA8,   // for Q8_0 and MXFP4
  kQ8K,  // for Q4_K, Q2_K and IQ2_XXS
};

// The form that meets weights of `type`; f32 for all of them unless `integers`.
ActivationForm activation_form(DType type, bool integers);

// Thread-compatible; rows may be read by many threads. Keeps its memory from op to op and grows
// only for a larger one.
class Activations {
 public:
  // `kernels` must outlive this.
  explicit Activations(const Kernels& kernels) : kernels_(kernels) {}

  // The rows of x [.., width], each cut into n_parts equal parts that count as rows of their own:
  // row i is part i % n_parts of x's row i / n_parts. In f32 the rows point into x, which must
  // outlive their use. A part's width must be a multiple of the form's block (checked).
  void prepare(ActivationForm form, ConstTensor x, int64_t n_parts, ThreadPool& pool);

  // Bytes that n_rows rows of `width` in n_parts parts take at most, whatever the integer form.
  static int64_t bytes_needed(int64_t n_rows, int64_t width, int64_t n_parts);
  void reserve(int64_t bytes) { memory_.reserve(bytes); }

  int64_t n_rows() const { return n_rows_; }
  const void* row(int64_t i) const;

 private:
  void round_row(int64_t i);

  const Kernels& kernels_;
  ActivationForm form_ = ActivationForm::kF32;
  ConstTensor x_;
  int64_t n_parts_ = 1;
  int64_t width_ = 0;  // of a part
  int64_t n_rows_ = 0;
  int64_t n_groups_ = 0;  // of a row
  Scratch memory_;
  ActivationGroup* groups_ = nullptr;
};

}  // namespace ds4::cpu
