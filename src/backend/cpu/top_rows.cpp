#include "backend/cpu/top_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "base/check.h"

namespace ds4::cpu {
namespace {

uint64_t candidate(float score, int64_t row) {
  if (std::isnan(score)) score = -INFINITY;
  const uint32_t bits = std::bit_cast<uint32_t>(score + 0.0f);  // -0 becomes 0
  const uint32_t key = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return uint64_t{key} << 32 | ~static_cast<uint32_t>(row);
}

float score_of(uint64_t candidate) {
  const auto key = static_cast<uint32_t>(candidate >> 32);
  return std::bit_cast<float>((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key);
}

}  // namespace

void TopRows::append(float score, int64_t row) { best_[n_++] = candidate(score, row); }

void TopRows::keep_best() {
  if (n_ < k_) return;
  std::nth_element(best_, best_ + (k_ - 1), best_ + n_, std::greater<>());
  n_ = k_;
  bar_ = score_of(best_[k_ - 1]);
  full_ = true;
}

void TopRows::add(const float* scores, int64_t n, int64_t first_row) {
  DS4_DCHECK(n <= kMaxAdd);
  if (n_ + n > capacity(k_)) keep_best();
  if (full_) {
    int32_t found[kMaxAdd];
    const int64_t n_found = kernels_.scores_above(found, scores, n, bar_);
    for (int64_t i = 0; i < n_found; ++i) append(scores[found[i]], first_row + found[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) append(scores[i], first_row + i);
  }
}

void TopRows::merge(TopRows& other) {
  keep_best();
  other.keep_best();
  std::copy_n(other.best_, other.n_, best_ + n_);
  n_ += other.n_;
}

void TopRows::finish(int32_t* rows) {
  keep_best();
  DS4_CHECK(n_ == k_);
  for (int64_t i = 0; i < k_; ++i) rows[i] = static_cast<int32_t>(~static_cast<uint32_t>(best_[i]));
  std::sort(rows, rows + k_);
}

}  // namespace ds4::cpu
