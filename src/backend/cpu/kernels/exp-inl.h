// exp() of a vector, for softmax weights; compiled once per target.
//
// x = n ln 2 + r with |r| <= ln(2) / 2 (the two parts of ln 2 keep r exact enough for |n| < 2^9),
// exp(r) by its Taylor polynomial of degree 7 (next term: 5e-9), times 2^n. At most 2 ulp from the
// exact value (tests/backend/exp_test.cpp), the same bits on every target with a fused
// multiply-add. Below n = -126, where results would be subnormal, it is 0; -inf gives 0 and NaN
// gives NaN. For x <= 88.
#if defined(DS4_BACKEND_CPU_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DS4_BACKEND_CPU_EXP_INL_H_
#undef DS4_BACKEND_CPU_EXP_INL_H_
#else
#define DS4_BACKEND_CPU_EXP_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ds4::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_of(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  // Adding 1.5 * 2^23 rounds to an integer, which is left in the low mantissa bits.
  const V magic = hn::Set(d, 12582912.0f);
  const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), magic);
  const V n = hn::Sub(shifted, magic);
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693145752f), x);  // 15 bits of ln 2: n times it is exact
  r = hn::NegMulAdd(n, hn::Set(d, 1.42860677e-6f), r);
  V p = hn::Set(d, 1.0f / 5040);
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 720));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 120));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 24));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 6));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(du, shifted));
  const V scale = hn::BitCast(d, hn::Add(exponent, hn::Set(du, 127u << 23)));
  return hn::IfThenZeroElse(hn::Lt(n, hn::Set(d, -126.0f)), hn::Mul(p, scale));
}

}  // namespace HWY_NAMESPACE
}  // namespace ds4::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
