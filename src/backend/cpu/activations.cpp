#include "backend/cpu/activations.h"

#include <algorithm>
#include <cstring>

namespace ds4::cpu {
namespace {

constexpr int64_t kGroupElems = 256;

// Rows below this many values in all are rounded by the caller: waking threads takes longer.
constexpr int64_t kMinSplitValues = 16384;

void round_group(const float* x, int64_t n, A8Group* group) {
  if (n < kGroupElems) std::memset(group, 0, sizeof(*group));
  for (int64_t b = 0; b < n / kA8Elems; ++b) {
    BlockA8 block;
    encode_block(x + b * kA8Elems, &block);
    std::memcpy(group->q + b * kA8Elems, block.q, sizeof(block.q));
    int32_t sum = 0;
    for (int8_t q : block.q) sum += q;
    group->d[b] = block.d;
    group->sums[b] = sum;
  }
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
  static_assert(sizeof(A8Group) >= sizeof(BlockQ8K), "a group of the larger form");
  const int64_t groups = (width / n_parts + kGroupElems - 1) / kGroupElems;
  return n_rows * n_parts * groups * static_cast<int64_t>(sizeof(A8Group));
}

void Activations::prepare(ActivationForm form, ConstTensor x, int64_t n_parts, ThreadPool& pool) {
  form_ = form;
  x_ = x;
  n_parts_ = n_parts;
  width_ = x.n_cols() / n_parts;
  n_rows_ = x.n_rows() * n_parts;
  if (form == ActivationForm::kF32) return;
  if (form == ActivationForm::kA8) {
    DS4_CHECK(width_ % kA8Elems == 0);
    row_units_ = (width_ + kGroupElems - 1) / kGroupElems;
    a8_ = memory_.take<A8Group>(n_rows_ * row_units_);
  } else {
    DS4_CHECK(width_ % kQ8KElems == 0);
    row_units_ = width_ / kQ8KElems;
    q8_k_ = memory_.take<BlockQ8K>(n_rows_ * row_units_);
  }
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
  if (form_ == ActivationForm::kQ8K) {
    encode_q8_k_row(x, width_, q8_k_ + i * row_units_);
    return;
  }
  for (int64_t g = 0; g < row_units_; ++g) {
    const int64_t left = width_ - g * kGroupElems;
    round_group(x + g * kGroupElems, std::min(left, kGroupElems), a8_ + i * row_units_ + g);
  }
}

const void* Activations::row(int64_t i) const {
  switch (form_) {
    case ActivationForm::kF32:
      return x_.row<float>(i / n_parts_) + (i % n_parts_) * width_;
    case ActivationForm::kA8:
      return a8_ + i * row_units_;
    case ActivationForm::kQ8K:
      return q8_k_ + i * row_units_;
  }
  return nullptr;
}

}  // namespace ds4::cpu
