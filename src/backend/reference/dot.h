#pragma once
// The sum everything in this backend is made of, with one fixed order of additions.
#include <cstdint>

namespace ds4::reference {

// Widest row that a projection may have: one stack buffer holds a decoded weight row. Flash's widest
// is 16384 and Pro's 28672 (the hyper-connection mixes).
inline constexpr int64_t kMaxCols = 32768;

// sum_i a[i] b[i] as 16 interleaved partial sums that are then added pairwise. Plain loops, yet the
// compiler can use vectors of up to 16 lanes without changing the order, and the error of a long sum
// is that of one a sixteenth as long.
inline float dot(const float* a, const float* b, int64_t n) {
  float lane[16] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int l = 0; l < 16; ++l) lane[l] += a[i + l] * b[i + l];
  }
  for (int l = 0; i < n; ++i, ++l) lane[l] += a[i] * b[i];
  for (int width = 8; width > 0; width /= 2) {
    for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
  }
  return lane[0];
}

}  // namespace ds4::reference
