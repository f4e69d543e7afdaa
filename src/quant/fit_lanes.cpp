// The searches of fit.h over several sub-blocks at once, a sub-block in each SIMD lane. Every lane
// does the operations of fit.h in their order and nothing else, so the width of the vectors changes
// no bit: no fused multiply-add, no sum across lanes.
// clang-format off: this order is how Highway compiles the file once for each target.
#include "base/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/fit_lanes.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>
// clang-format on

#include <algorithm>

#include "base/check.h"
#include "quant/fit.h"
#include "quant/rounding-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ds4 {
namespace HWY_NAMESPACE {

// Up to kFitLanes sub-blocks of n values, value i of all of them side by side; lanes without a
// sub-block hold zeros.
struct Columns {
  alignas(64) float v[kFitElemsMax][kFitLanes];

  void gather(const float* src, int n_fits, int n) {
    for (int i = 0; i < n; ++i) {
      for (int lane = 0; lane < kFitLanes; ++lane)
        v[i][lane] = lane < n_fits ? src[lane * n + i] : 0;
    }
  }
  FitVec at(int i) const { return hn::Load(FitTag(), v[i]); }
  void set(int i, FitVec value) { hn::Store(value, FitTag(), v[i]); }
};

FitVec affine_error(int n, const Columns& x, const Columns& w, FitVec scale, FitVec lo,
                    bool absolute, const Columns& codes) {
  FitVec total = hn::Zero(FitTag());
  for (int i = 0; i < n; ++i) {
    const FitVec e = hn::Sub(hn::Add(hn::Mul(scale, codes.at(i)), lo), x.at(i));
    total = hn::Add(total, hn::Mul(w.at(i), absolute ? hn::Abs(e) : hn::Mul(e, e)));
  }
  return total;
}

void affine_codes(int n, const Columns& x, FitVec inverse, FitVec lo, FitVec code_max,
                  Columns& codes) {
  for (int i = 0; i < n; ++i) {
    codes.set(
        i, round_even_lanes(hn::Mul(inverse, hn::Sub(x.at(i), lo)), hn::Zero(FitTag()), code_max));
  }
}

struct AffineLanes {
  FitVec scale, lo;
  Columns codes;
};

// Sums over a sub-block that no trial changes.
struct AffineSums {
  FitVec w, wx;
};

// Least squares for the codes of a trial; true where they determine a line.
FitMask solve_affine(int n, const Columns& x, const Columns& w, const AffineSums& sums,
                     const Columns& codes, FitVec& scale, FitVec& lo) {
  FitVec a = hn::Zero(FitTag()), b = a, c = a;
  for (int i = 0; i < n; ++i) {
    const FitVec wq = hn::Mul(w.at(i), codes.at(i));
    a = hn::Add(a, wq);
    b = hn::Add(b, hn::Mul(wq, codes.at(i)));
    c = hn::Add(c, hn::Mul(wq, x.at(i)));
  }
  const FitVec det = hn::Sub(hn::Mul(sums.w, b), hn::Mul(a, a));
  scale = hn::Div(hn::Sub(hn::Mul(sums.w, c), hn::Mul(sums.wx, a)), det);
  lo = hn::Div(hn::Sub(hn::Mul(b, sums.wx), hn::Mul(a, c)), det);
  const FitMask above = hn::Gt(lo, hn::Zero(FitTag()));
  scale = hn::IfThenElse(above, hn::Div(c, b), scale);
  lo = hn::IfThenElse(above, hn::Zero(FitTag()), lo);
  return hn::Gt(det, hn::Zero(FitTag()));
}

AffineLanes search_affine(int n, const Columns& x, const Columns& w, const AffineSearch& search) {
  const FitVec zero = hn::Zero(FitTag());
  const FitVec code_max = hn::Set(FitTag(), static_cast<float>(search.code_max));
  FitVec lo = x.at(0), hi = x.at(0);
  AffineSums sums{zero, zero};
  for (int i = 0; i < n; ++i) {
    const FitVec v = x.at(i);
    lo = hn::IfThenElse(hn::Lt(v, lo), v, lo);
    hi = hn::IfThenElse(hn::Lt(hi, v), v, hi);
    sums.w = hn::Add(sums.w, w.at(i));
    sums.wx = hn::Add(sums.wx, hn::Mul(w.at(i), v));
  }
  lo = hn::IfThenElse(hn::Lt(zero, lo), zero, lo);
  const FitMask has_range = hn::Gt(hi, lo);
  AffineLanes best{hn::Div(code_max, hn::Sub(hi, lo)), lo, {}};
  affine_codes(n, x, best.scale, lo, code_max, best.codes);
  best.scale = hn::Div(hn::Set(FitTag(), 1.0f), best.scale);
  FitVec best_error = affine_error(n, x, w, best.scale, lo, search.absolute, best.codes);
  for (int t = 0; t <= search.n_steps; ++t) {
    const FitVec levels = hn::Set(FitTag(), search.start + search.step * static_cast<float>(t) +
                                                static_cast<float>(search.code_max));
    Columns trial;
    affine_codes(n, x, hn::Div(levels, hn::Sub(hi, best.lo)), best.lo, code_max, trial);
    FitVec scale, trial_lo;
    const FitMask solved = solve_affine(n, x, w, sums, trial, scale, trial_lo);
    const FitVec error = affine_error(n, x, w, scale, trial_lo, search.absolute, trial);
    const FitMask wins = hn::And(solved, hn::Lt(error, best_error));
    if (hn::AllFalse(FitTag(), wins)) continue;
    best_error = hn::IfThenElse(wins, error, best_error);
    best.scale = hn::IfThenElse(wins, scale, best.scale);
    best.lo = hn::IfThenElse(wins, trial_lo, best.lo);
    for (int i = 0; i < n; ++i) {
      best.codes.set(i, hn::IfThenElse(wins, trial.at(i), best.codes.at(i)));
    }
  }
  best.scale = hn::IfThenElseZero(has_range, best.scale);
  for (int i = 0; i < n; ++i) best.codes.set(i, hn::IfThenElseZero(has_range, best.codes.at(i)));
  return best;
}

void fit_affine_lanes(int n_fits, int n, const float* x, const float* w, const AffineSearch& search,
                      AffineFit* fits, uint8_t* codes) {
  constexpr int kStep = static_cast<int>(hn::MaxLanes(FitTag()));
  for (int first = 0; first < n_fits; first += kStep) {
    const int n_lanes = std::min(kStep, n_fits - first);
    Columns xs, ws;
    xs.gather(x + first * n, n_lanes, n);
    ws.gather(w + first * n, n_lanes, n);
    const AffineLanes found = search_affine(n, xs, ws, search);
    alignas(64) float scale[kFitLanes], lo[kFitLanes];
    hn::Store(found.scale, FitTag(), scale);
    hn::Store(found.lo, FitTag(), lo);
    for (int lane = 0; lane < n_lanes; ++lane) {
      fits[first + lane] = {.scale = scale[lane], .min = -lo[lane]};
      for (int i = 0; i < n; ++i) {
        codes[(first + lane) * n + i] = static_cast<uint8_t>(found.codes.v[i][lane]);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ds4
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds4 {
HWY_EXPORT(fit_affine_lanes);

void fit_affine(int n_fits, int n, const float* x, const float* w, const AffineSearch& search,
                AffineFit* fits, uint8_t* codes) {
  DS4_DCHECK(n >= 1 && n <= kFitElemsMax);
  HWY_DYNAMIC_DISPATCH(fit_affine_lanes)(n_fits, n, x, w, search, fits, codes);
}

}  // namespace ds4
#endif
