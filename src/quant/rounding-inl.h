// Vectors of the encoders' searches and rounding in them; compiled once per target. Included by
// files that are themselves compiled so, after Highway.
#if defined(DS4_QUANT_ROUNDING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DS4_QUANT_ROUNDING_INL_H_
#undef DS4_QUANT_ROUNDING_INL_H_
#else
#define DS4_QUANT_ROUNDING_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ds4 {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Eight lanes at most: a block has 8 or 16 sub-blocks, and an octet of IQ2_XXS 8 values.
inline constexpr int kFitLanes = 8;
using FitTag = hn::CappedTag<float, kFitLanes>;
using FitVec = hn::Vec<FitTag>;
using FitMask = hn::Mask<FitTag>;
using FitIntTag = hn::RebindToSigned<FitTag>;
using FitInts = hn::Vec<FitIntTag>;

// round_even() of quant/rounding.h as a float: clamped to the integers [lo, hi], ties to even, NaN
// gives lo.
HWY_INLINE FitVec round_even_lanes(FitVec value, FitVec lo, FitVec hi) {
  const FitVec magic = hn::Set(FitTag(), 12582912.0f);
  const FitVec inside = hn::IfThenElse(hn::Lt(value, hi), value, hi);
  const FitVec clamped = hn::IfThenElse(hn::Gt(value, lo), inside, lo);
  return hn::Sub(hn::Add(clamped, magic), magic);
}

}  // namespace HWY_NAMESPACE
}  // namespace ds4
HWY_AFTER_NAMESPACE();
#endif
