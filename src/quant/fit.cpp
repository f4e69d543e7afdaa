#include "quant/fit.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "quant/rounding.h"

namespace ds4 {
namespace {

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
