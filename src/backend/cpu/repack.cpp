// Weights copied into the order in which the kernels read them (PackedQ8_0Format in
// kernels/dot_a8.cpp). A copy has the rows and the bytes of its original, so a row's address is
// computed alike; only within kRowStep rows things stand elsewhere. Threads copy the rows that they
// will multiply, so that on machines with several memories each finds its rows near.
#include <algorithm>

#include "backend/cpu/cpu_ops.h"

namespace ds4::cpu {

bool is_repackable(ConstTensor w, const CpuOptions& options) {
  return options.integer_activations && w.dtype() == DType::kQ8_0 && w.n_rows() > 0 &&
         w.dim(w.rank() - 2) % kRowStep == 0 && w.n_cols() % kActivationGroupElems == 0;
}

int64_t CpuOps::do_repack(std::span<const ConstTensor> weights, int64_t bytes_max) {
  DS4_CHECK(repacked_.empty() && kRowStep % kernels_.group_rows == 0);
  int64_t taken = 0;
  for (const ConstTensor& w : weights) {
    const int64_t bytes = w.n_rows() * w.row_stride();
    if (!is_repackable(w, options_) || taken + bytes > bytes_max) continue;
    Repacked entry{.original = w.row_data(0), .copy = {}};
    std::byte* copy = entry.copy.take<std::byte>(bytes);
    split_rows(w.n_rows(), w.n_cols(), [&](int64_t begin, int64_t end) {
      kernels_.pack_q8_0(copy + begin * w.row_stride(), w.row_data(begin), end - begin, w.n_cols());
    });
    taken += bytes;
    repacked_.push_back(std::move(entry));
  }
  std::ranges::sort(repacked_, {}, &Repacked::original);
  return taken;
}

CpuOps::Form CpuOps::form_of(ConstTensor w) const {
  if (w.dtype() != DType::kQ8_0 || repacked_.empty()) return {w, false};
  const auto found = std::ranges::lower_bound(repacked_, w.row_data(0), {}, &Repacked::original);
  if (found == repacked_.end() || found->original != w.row_data(0)) return {w, false};
  return {ConstTensor(found->copy.data(), w.dtype(), w.shape()), true};
}

}  // namespace ds4::cpu
