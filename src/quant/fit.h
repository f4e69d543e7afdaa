#pragma once
// The two weighted least-squares searches behind Q4_K, Q2_K and IQ2_XXS.
//
// Both are defined down to the order of float operations (f32, no fused multiply-add): another
// order gives equally good files whose bytes differ, and the known-answer tests would no longer
// hold. Products of three factors associate to the left, (w*x)*q; a squared error is formed first
// in fit_affine, w*(e*e), and last in fit_positive, (w*e)*e. Thread-safe: no state. Source: the
// k-quants search of the ggml project, described in docs/formats/quant.md.
#include <cstdint>

namespace ds4 {

// Longest vector either routine takes; bounds the scratch space on the stack.
inline constexpr int kFitElemsMax = 32;

// x ~ scale * code - min with scale >= 0, min >= 0.
struct AffineFit {
  float scale = 0;
  float min = 0;
};

// Which inverse scales fit_affine() tries: (nmax + start + step * t) / range for t = 0..n_steps.
struct AffineSearch {
  int code_max = 15;
  float start = -1.0f;
  float step = 0.1f;
  int n_steps = 20;
  bool absolute = false;  // weigh |error| instead of its square
};

// Fits n_fits sub-blocks of n values each, x [n_fits, n] with weights w [n_fits, n], one by one or
// several at once (the result is the same bits); writes fits [n_fits] and codes [n_fits, n] in
// 0..code_max.
void fit_affine(int n_fits, int n, const float* x, const float* w, const AffineSearch& search,
                AffineFit* fits, uint8_t* codes);

// Fits x ~ scale * code for mostly non-negative x; returns the scale (0 when nothing exceeds
// 1e-15). Writes codes [n] in 0..code_max; a negative value may get a negative level, which is
// stored modulo 256 (only IQ2_XXS sends such values, and it uses the scale alone).
float fit_positive(int n, int code_max, const float* x, const float* w, uint8_t* codes);

}  // namespace ds4
