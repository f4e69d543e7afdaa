#include "backend/cpu/activations.h"

#include <algorithm>
#include <cstring>

#include "quant/q8_k.h"

namespace ds4::cpu {
namespace {

// Rows below this many values in all are rounded by the caller: waking threads takes longer.
constexpr int64_t kMinSplitValues = 16384;

int64_t groups_of(int64_t width) {
  return (width + kActivationGroupElems - 1) / kActivationGroupElems;
}

}  // namespace

ActivationForm activation_form(DType type, bool integers) {
  if (!integers) return ActivationForm::kF32;
  switch (type) {
    case DType::kQ8_0:
    case DType::kMXFP4:
      return ActivationForm::kA8;
    case DType::kQ4_K:
    case DType::kQ2_K:
    case DType::kIQ2_XXS:
      return ActivationForm::kQ8K;
    default:
      return ActivationForm::kF32;
  }
}

int64_t Activations::bytes_needed(int64_t n_rows, int64_t width, int64_t n_parts) {
  return n_rows * n_parts * groups_of(width / n_parts) *
         static_cast<int64_t>(sizeof(ActivationGroup));
}

void Activations::prepare(ActivationForm form, ConstTensor x, int64_t n_parts, ThreadPool& pool) {
  form_ = form;
  x_ = x;
  n_parts_ = n_parts;
  width_ = x.n_cols() / n_parts;
  n_rows_ = x.n_rows() * n_parts;
  if (form == ActivationForm::kF32) return;
  DS4_CHECK(width_ % (form == ActivationForm::kA8 ? kA8Elems : kQ8KElems) == 0);
  n_groups_ = groups_of(width_);
  groups_ = memory_.take<ActivationGroup>(n_rows_ * n_groups_);
  const auto round_rows = [this](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) round_row(i);
  };
  if (n_rows_ * width_ < kMinSplitValues) {
    round_rows(0, n_rows_);
  } else {
    pool.parallel_for(n_rows_, round_rows);
  }
}

void Activations::round_row(int64_t i) {
  const float* x = x_.row<float>(i / n_parts_) + (i % n_parts_) * width_;
  for (int64_t g = 0; g < n_groups_; ++g) {
    const int64_t at = g * kActivationGroupElems;
    ActivationGroup* group = groups_ + i * n_groups_ + g;
    if (form_ == ActivationForm::kQ8K) {
      kernels_.round_q8_k(x + at, group);
      continue;
    }
    const int64_t n = std::min(kActivationGroupElems, width_ - at);
    if (n < kActivationGroupElems) std::memset(group, 0, sizeof(*group));
    kernels_.round_a8(x + at, n / kA8Elems, group);
  }
}

const void* Activations::row(int64_t i) const {
  if (form_ == ActivationForm::kF32) {
    return x_.row<float>(i / n_parts_) + (i % n_parts_) * width_;
  }
  return groups_ + i * n_groups_;
}

}  // namespace ds4::cpu
