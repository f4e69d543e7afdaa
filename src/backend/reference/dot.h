#pragma once
// The sum everything in this backend is made of, with one fixed order of additions.
#include <cstdint>

namespace ds4::reference {

// Widest row that a projection may have: one stack buffer holds a decoded weight row. Flash's
// widest is 16384 and Pro's 28672 (the hyper-connection mixes).
inline constexpr int64_t kMaxCols = 32768;

// sum_i a[i] b[i] of f32 values, accumulated in f64 and rounded once.
//
// Why f64: the official profile makes discrete choices (FP8 and FP4 codes, expert ids), and with
// f32 sums the noise of the sums themselves decides some of them. On the 2048-token reference
// prompt one draft row changed an expert that way (biased scores 8.8e-5 apart) and was 9.9e-2 off;
// with f64 sums it is 3.2e-4 off. An oracle should not be the noisy side.
float dot(const float* a, const float* b, int64_t n);

}  // namespace ds4::reference
