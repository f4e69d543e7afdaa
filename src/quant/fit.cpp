#include "quant/fit.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "quant/rounding.h"

namespace ds4 {
namespace {

void affine_codes(int n, const float* x, float inverse, float lo, int code_max, uint8_t* codes) {
  for (int i = 0; i < n; ++i) {
    codes[i] = static_cast<uint8_t>(round_even(inverse * (x[i] - lo), 0, code_max));
  }
}

float affine_error(int n, const float* x, const float* w, float scale, float lo, bool absolute,
                   const uint8_t* codes) {
  float total = 0;
  for (int i = 0; i < n; ++i) {
    const float e = scale * static_cast<float>(codes[i]) + lo - x[i];
    total += w[i] * (absolute ? std::fabs(e) : e * e);
  }
  return total;
}

// Least squares for given codes; false when the codes do not determine a line.
bool solve_affine(int n, const float* x, const float* w, float sum_w, float sum_wx,
                  const uint8_t* codes, float* scale, float* lo) {
  float a = 0;
  float b = 0;
  float c = 0;
  for (int i = 0; i < n; ++i) {
    const float q = static_cast<float>(codes[i]);
    a += w[i] * q;
    b += w[i] * q * q;
    c += w[i] * q * x[i];
  }
  const float det = sum_w * b - a * a;
  if (!(det > 0)) return false;
  *scale = (sum_w * c - sum_wx * a) / det;
  *lo = (b * sum_wx - a * c) / det;
  if (*lo > 0) {
    *lo = 0;
    *scale = c / b;
  }
  return true;
}

int positive_level(float value, int code_max) {
  return round_even(value, -kRoundEvenMax, code_max);
}

float positive_error(int n, const float* x, const float* w, float scale, float inverse,
                     int code_max) {
  float total = 0;
  for (int i = 0; i < n; ++i) {
    const float e = x[i] - scale * static_cast<float>(positive_level(inverse * x[i], code_max));
    total += w[i] * e * e;
  }
  return total;
}

// The inverse scale, of nine around code_max / hi, whose rounding error is smallest.
float best_inverse(int n, int code_max, const float* x, const float* w, float hi, uint8_t* codes) {
  float best_k = static_cast<float>(code_max) / hi;
  float best = 0;
  const float scale = 1 / best_k;
  for (int i = 0; i < n; ++i) {
    // The first candidate is measured on stored codes, so a negative level counts modulo 256.
    codes[i] = static_cast<uint8_t>(positive_level(best_k * x[i], code_max));
    const float e = x[i] - scale * static_cast<float>(codes[i]);
    best += w[i] * e * e;
  }
  for (int t = -4; t <= 4; ++t) {
    if (t == 0) continue;
    const float k = (0.1f * static_cast<float>(t) + static_cast<float>(code_max)) / hi;
    const float error = positive_error(n, x, w, 1 / k, k, code_max);
    if (error < best) {
      best = error;
      best_k = k;
    }
  }
  return best_k;
}

// One pass of coordinate descent on P*P/Q; returns whether a code changed.
bool improve_codes(int n, int code_max, const float* x, const float* w, uint8_t* codes, float* p,
                   float* q) {
  bool changed = false;
  for (int i = 0; i < n; ++i) {
    const float old = static_cast<float>(codes[i]);
    float p_new = *p - w[i] * x[i] * old;
    float q_new = *q - w[i] * old * old;
    if (!(p_new > 0 && q_new > 0)) continue;
    const int level = positive_level(x[i] * q_new / p_new, code_max);
    if (level == codes[i]) continue;
    const float l = static_cast<float>(level);
    p_new += w[i] * x[i] * l;
    q_new += w[i] * l * l;
    if (p_new * p_new * *q > *p * *p * q_new) {
      codes[i] = static_cast<uint8_t>(level);
      *p = p_new;
      *q = q_new;
      changed = true;
    }
  }
  return changed;
}

}  // namespace

AffineFit fit_affine(int n, const float* x, const float* w, const AffineSearch& search,
                     uint8_t* codes) {
  DS4_DCHECK(n >= 1 && n <= kFitElemsMax);
  float lo = x[0];
  float hi = x[0];
  float sum_w = 0;
  float sum_wx = 0;
  for (int i = 0; i < n; ++i) {
    lo = std::min(lo, x[i]);
    hi = std::max(hi, x[i]);
    sum_w += w[i];
    sum_wx += w[i] * x[i];
  }
  lo = std::min(lo, 0.0f);
  if (hi <= lo) {
    std::fill_n(codes, n, uint8_t{0});
    return {.scale = 0, .min = -lo};
  }
  const float first = static_cast<float>(search.code_max) / (hi - lo);
  float scale = 1 / first;
  affine_codes(n, x, first, lo, search.code_max, codes);
  float best = affine_error(n, x, w, scale, lo, search.absolute, codes);
  for (int t = 0; t <= search.n_steps; ++t) {
    // `lo` is the adopted one: once a trial wins, later trials start from its minimum, while `hi`
    // stays. The reference search does the same, and files depend on it.
    const float k =
        (search.start + search.step * static_cast<float>(t) + static_cast<float>(search.code_max)) /
        (hi - lo);
    uint8_t trial[kFitElemsMax];
    affine_codes(n, x, k, lo, search.code_max, trial);
    float trial_scale = 0;
    float trial_lo = 0;
    if (!solve_affine(n, x, w, sum_w, sum_wx, trial, &trial_scale, &trial_lo)) continue;
    const float error = affine_error(n, x, w, trial_scale, trial_lo, search.absolute, trial);
    if (error < best) {
      best = error;
      scale = trial_scale;
      lo = trial_lo;
      std::copy_n(trial, n, codes);
    }
  }
  return {.scale = scale, .min = -lo};
}

float fit_positive(int n, int code_max, const float* x, const float* w, uint8_t* codes) {
  DS4_DCHECK(n >= 1 && n <= kFitElemsMax);
  float hi = 0;
  for (int i = 0; i < n; ++i) hi = std::max(hi, x[i]);
  if (hi < 1e-15f) {
    std::fill_n(codes, n, uint8_t{0});
    return 0;
  }
  const float k = best_inverse(n, code_max, x, w, hi, codes);
  float p = 0;
  float q = 0;
  for (int i = 0; i < n; ++i) {
    const int level = positive_level(k * x[i], code_max);
    const float l = static_cast<float>(level);
    codes[i] = static_cast<uint8_t>(level);
    p += w[i] * x[i] * l;
    q += w[i] * l * l;
  }
  for (int sweep = 0; sweep < 5; ++sweep) {
    if (!improve_codes(n, code_max, x, w, codes, &p, &q)) break;
  }
  return q > 0 ? p / q : 0;
}

}  // namespace ds4
