// A lane holds a group where groups are alike (scales, sums), a value of an octet where digits are
// chosen, and a candidate where codebook neighbours are judged. Sums run inside a lane in the order
// of the scalar definition (docs/formats/quant.md), so every target gives the same bytes.
// clang-format off: this order is how Highway compiles the file once for each target.
#include "base/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/iq2_xxs_search.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>
// clang-format on

#include "quant/iq2_xxs_search.h"

#include <algorithm>
#include <limits>

#include "quant/iq2_xxs_codebook.h"
#include "quant/rounding-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ds4::iq2_xxs {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using ds4::HWY_NAMESPACE::FitInts;
using ds4::HWY_NAMESPACE::FitIntTag;
using ds4::HWY_NAMESPACE::FitMask;
using ds4::HWY_NAMESPACE::FitTag;
using ds4::HWY_NAMESPACE::FitVec;
using ds4::HWY_NAMESPACE::kFitLanes;
using ds4::HWY_NAMESPACE::round_even_lanes;

inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(FitTag()));
using ByteTag = hn::Rebind<uint8_t, FitTag>;
// Candidates are many: as wide as the machine allows.
using CandidateTag = hn::CappedTag<float, 16>;
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The candidate whose weighted error at `scale` is smallest, the first of equally good ones.
int best_neighbour(const Codebook& book, int rank, const float* a, const float* root_w,
                   float scale) {
  // errors[4 i + digit]: what value i costs with that digit; the fourth place is never looked up.
  alignas(64) float errors[4 * kOctet];
  const FitVec s = hn::Set(FitTag(), scale);
  for (int i = 0; i < kOctet; i += kLanes) {
    const FitVec x = hn::LoadU(FitTag(), a + i), w = hn::LoadU(FitTag(), root_w + i);
    const auto cost = [&](float level) {
      const FitVec e = hn::Sub(hn::Mul(s, hn::Set(FitTag(), level)), x);
      return hn::Mul(hn::Mul(w, e), e);
    };
    const FitVec third = cost(5);
    hn::StoreInterleaved4(cost(1), cost(3), third, third, FitTag(), errors + 4 * i);
  }
  const CandidateTag d;
  const hn::RebindToSigned<CandidateTag> di;
  const hn::Rebind<uint8_t, CandidateTag> bytes;
  constexpr int kStep = static_cast<int>(hn::MaxLanes(d));
  const Codebook::Range range = book.neighbours(rank);
  const auto none = hn::Set(di, std::numeric_limits<int32_t>::max());
  auto best = hn::Set(d, kInfinity);
  auto place = none;
  for (int c = 0; c < range.n; c += kStep) {
    auto error = hn::Zero(d);
    for (int i = 0; i < kOctet; ++i) {
      const auto digits =
          hn::PromoteTo(di, hn::LoadU(bytes, book.digit_plane(i) + range.begin + c));
      const auto costs = hn::LoadDup128(d, errors + 4 * i);
      error = hn::Add(error, hn::TableLookupLanes(costs, hn::IndicesFromVec(d, digits)));
    }
    const auto at = hn::Iota(di, c);
    const auto better =
        hn::And(hn::Lt(error, best), hn::RebindMask(d, hn::Lt(at, hn::Set(di, range.n))));
    best = hn::IfThenElse(better, error, best);
    place = hn::IfThenElse(hn::RebindMask(di, better), at, place);
  }
  const float least = hn::ReduceMin(d, best);
  if (least == kInfinity) return book.entries()[range.begin];
  const auto equal = hn::RebindMask(di, hn::Eq(best, hn::Set(d, least)));
  return book.entries()[range.begin + hn::ReduceMin(di, hn::IfThenElse(equal, place, none))];
}

// The codebook entry for one octet at inverse scale k; `scale` is what neighbours are judged with.
int choose_entry(const Codebook& book, const float* a, const float* root_w, float k, float scale) {
  FitInts ranks = hn::Zero(FitIntTag());
  for (int i = 0; i < kOctet; i += kLanes) {
    const FitVec x = hn::LoadU(FitTag(), a + i);
    const FitVec wanted = hn::Mul(hn::Set(FitTag(), 0.5f), hn::Sub(hn::Mul(hn::Set(FitTag(), k), x),
                                                                   hn::Set(FitTag(), 1.0f)));
    const FitVec digit = round_even_lanes(wanted, hn::Zero(FitTag()), hn::Set(FitTag(), 2.0f));
    ranks = hn::Add(ranks, hn::Mul(hn::ConvertTo(FitIntTag(), digit),
                                   hn::LoadU(FitIntTag(), kDigitWeights + i)));
  }
  const int rank = hn::ReduceSum(FitIntTag(), ranks);
  const int index = book.index_of(rank);
  return index >= 0 ? index : best_neighbour(book, rank, a, root_w, scale);
}

// Bit l of the result is lane l.
unsigned mask_bits(FitMask mask) {
  uint8_t bits[8] = {};
  hn::StoreMaskBits(FitTag(), mask, bits);
  return bits[0];
}

// A choice of entries for kLanes groups: their levels value by value, and the sums P = sum w*a*L
// and Q = sum w*L*L; the best scale for them is P/Q.
struct Choice {
  uint8_t entries[kFitLanes][4] = {};
  alignas(64) uint8_t digits[kGroupElems][kFitLanes] = {};
  FitVec p, q;
};

// Values of kLanes groups side by side.
struct Columns {
  alignas(64) float v[kGroupElems][kFitLanes];
  FitVec at(int i) const { return hn::Load(FitTag(), v[i]); }
};

// fit_positive() of quant/fit.h with levels 0..kLevelMax, a group in each lane.
class PositiveFit {
 public:
  PositiveFit(const Columns& a, const Columns& w) : a_(a), w_(w) {}

  FitVec scale() {
    FitVec hi = hn::Zero(FitTag());
    for (int i = 0; i < kGroupElems; ++i) {
      hi = hn::IfThenElse(hn::Lt(hi, a_.at(i)), a_.at(i), hi);
    }
    const FitMask any = hn::Not(hn::Lt(hi, hn::Set(FitTag(), 1e-15f)));
    take_levels(best_inverse(hi));
    FitMask changing = any;
    for (int sweep = 0; sweep < 5 && !hn::AllFalse(FitTag(), changing); ++sweep) {
      changing = improve(changing);
    }
    const FitMask fits = hn::And(any, hn::Gt(q_, hn::Zero(FitTag())));
    return hn::IfThenElseZero(fits, hn::Div(p_, q_));
  }

 private:
  static constexpr float kLevelMax = 4;
  static constexpr float kLevelMin = -4194303.0f;  // kRoundEvenMax of quant/rounding.h

  static FitVec level_of(FitVec value) {
    return round_even_lanes(value, hn::Set(FitTag(), kLevelMin), hn::Set(FitTag(), kLevelMax));
  }
  // A level as a code of 8 bits: negative ones modulo 256.
  static FitVec stored(FitVec level) {
    return hn::ConvertTo(FitTag(),
                         hn::And(hn::ConvertTo(FitIntTag(), level), hn::Set(FitIntTag(), 255)));
  }
  FitVec error(FitVec inverse, FitVec scale, bool of_stored) const {
    FitVec total = hn::Zero(FitTag());
    for (int i = 0; i < kGroupElems; ++i) {
      const FitVec level = level_of(hn::Mul(inverse, a_.at(i)));
      const FitVec e = hn::Sub(a_.at(i), hn::Mul(scale, of_stored ? stored(level) : level));
      total = hn::Add(total, hn::Mul(hn::Mul(w_.at(i), e), e));
    }
    return total;
  }
  FitVec best_inverse(FitVec hi) const {
    const FitVec one = hn::Set(FitTag(), 1.0f);
    FitVec best_k = hn::Div(hn::Set(FitTag(), kLevelMax), hi);
    FitVec best = error(best_k, hn::Div(one, best_k), /*of_stored=*/true);
    for (int t = -4; t <= 4; ++t) {
      if (t == 0) continue;
      const FitVec k = hn::Div(hn::Set(FitTag(), 0.1f * static_cast<float>(t) + kLevelMax), hi);
      const FitVec trial = error(k, hn::Div(one, k), /*of_stored=*/false);
      const FitMask better = hn::Lt(trial, best);
      best = hn::IfThenElse(better, trial, best);
      best_k = hn::IfThenElse(better, k, best_k);
    }
    return best_k;
  }
  void take_levels(FitVec inverse) {
    p_ = q_ = hn::Zero(FitTag());
    for (int i = 0; i < kGroupElems; ++i) {
      const FitVec level = level_of(hn::Mul(inverse, a_.at(i)));
      hn::Store(stored(level), FitTag(), codes_.v[i]);
      p_ = hn::Add(p_, hn::Mul(hn::Mul(w_.at(i), a_.at(i)), level));
      q_ = hn::Add(q_, hn::Mul(hn::Mul(w_.at(i), level), level));
    }
  }
  // One pass of coordinate descent in the lanes of `which`; returns those where a code changed.
  FitMask improve(FitMask which) {
    const FitVec zero = hn::Zero(FitTag());
    FitMask changed = hn::Lt(zero, zero);
    for (int i = 0; i < kGroupElems; ++i) {
      const FitVec w = w_.at(i), x = a_.at(i), old = codes_.at(i);
      const FitVec wx = hn::Mul(w, x);
      FitVec p = hn::Sub(p_, hn::Mul(wx, old));
      FitVec q = hn::Sub(q_, hn::Mul(hn::Mul(w, old), old));
      const FitMask possible = hn::And(hn::Gt(p, zero), hn::Gt(q, zero));
      const FitVec level = level_of(hn::Div(hn::Mul(x, q), p));
      p = hn::Add(p, hn::Mul(wx, level));
      q = hn::Add(q, hn::Mul(hn::Mul(w, level), level));
      const FitMask better = hn::Gt(hn::Mul(hn::Mul(p, p), q_), hn::Mul(hn::Mul(p_, p_), q));
      const FitMask wins = hn::And(hn::And(which, possible), hn::And(hn::Ne(level, old), better));
      p_ = hn::IfThenElse(wins, p, p_);
      q_ = hn::IfThenElse(wins, q, q_);
      hn::Store(hn::IfThenElse(wins, stored(level), old), FitTag(), codes_.v[i]);
      changed = hn::Or(changed, wins);
    }
    return changed;
  }

  const Columns& a_;
  const Columns& w_;
  Columns codes_;
  FitVec p_ = hn::Zero(FitTag()), q_ = hn::Zero(FitTag());
};

class Search {
 public:
  Search(const Groups& groups, int first) : groups_(groups), first_(first) {
    for (int i = 0; i < kGroupElems; ++i) {
      for (int lane = 0; lane < kLanes; ++lane) {
        a_.v[i][lane] = groups.a[first + lane][i];
        w_.v[i][lane] = groups.w[first + lane][i];
      }
    }
  }

  void run(GroupFit* fits) {
    const FitVec zero = hn::Zero(FitTag());
    FitVec scale = PositiveFit(a_, w_).scale();
    const FitVec peak = hn::Mul(hn::Set(FitTag(), 3.0f), scale);
    const FitMask alive = hn::And(has_values(), hn::Gt(peak, zero));
    scale = hn::IfThenElseZero(alive, scale);
    FitVec best = zero;
    Choice trial;
    for (int t = -6; t <= 6; ++t) {
      const FitVec k = hn::Div(hn::Set(FitTag(), 5 + 0.1f * static_cast<float>(t)), peak);
      choose(alive, k, hn::Div(hn::Set(FitTag(), 1.0f), k), trial);
      const FitMask wins = hn::And(hn::And(alive, hn::Gt(trial.q, zero)),
                                   hn::Gt(hn::Mul(trial.p, trial.p), hn::Mul(best, trial.q)));
      scale = hn::IfThenElse(wins, hn::Div(trial.p, trial.q), scale);
      best = hn::IfThenElse(wins, hn::Mul(scale, trial.p), best);
      keep(wins, trial, fits);
    }
    const FitMask positive = hn::And(alive, hn::Gt(scale, zero));
    choose(positive, hn::Div(hn::Set(FitTag(), 1.0f), scale), scale, trial);
    keep(positive, trial, fits);
    scale =
        hn::IfThenElse(hn::And(positive, hn::Gt(trial.q, zero)), hn::Div(trial.p, trial.q), scale);
    alignas(64) float scales[kFitLanes];
    hn::Store(scale, FitTag(), scales);
    for (int lane = 0; lane < kLanes; ++lane) {
      fits[lane].scale = scales[lane];
      fits[lane].fitted = (mask_bits(alive) >> lane & 1) != 0;
    }
  }

 private:
  // Groups with a magnitude that is more than dust.
  FitMask has_values() const {
    FitVec top = a_.at(0);
    for (int i = 1; i < kGroupElems; ++i)
      top = hn::IfThenElse(hn::Lt(top, a_.at(i)), a_.at(i), top);
    return hn::Ge(top, hn::Set(FitTag(), 1e-15f));
  }

  void choose(FitMask which, FitVec k, FitVec scale, Choice& choice) const {
    const Codebook& book = Codebook::get();
    alignas(64) float ks[kFitLanes], scales[kFitLanes];
    hn::Store(k, FitTag(), ks);
    hn::Store(scale, FitTag(), scales);
    const unsigned bits = mask_bits(which);
    for (int lane = 0; lane < kLanes; ++lane) {
      if ((bits >> lane & 1) == 0) continue;
      for (int g = 0; g < 4; ++g) {
        const int entry =
            choose_entry(book, groups_.a[first_ + lane] + kOctet * g,
                         groups_.root_w[first_ + lane] + kOctet * g, ks[lane], scales[lane]);
        choice.entries[lane][g] = static_cast<uint8_t>(entry);
        const uint8_t* digits = book.digits(entry);
        for (int i = 0; i < kOctet; ++i) choice.digits[kOctet * g + i][lane] = digits[i];
      }
    }
    project(choice);
  }

  void project(Choice& choice) const {
    choice.p = choice.q = hn::Zero(FitTag());
    for (int i = 0; i < kGroupElems; ++i) {
      const auto digit = hn::PromoteTo(FitIntTag(), hn::LoadU(ByteTag(), choice.digits[i]));
      const FitVec level =
          hn::ConvertTo(FitTag(), hn::Add(hn::Add(digit, digit), hn::Set(FitIntTag(), 1)));
      choice.p = hn::Add(choice.p, hn::Mul(hn::Mul(w_.at(i), a_.at(i)), level));
      choice.q = hn::Add(choice.q, hn::Mul(hn::Mul(w_.at(i), level), level));
    }
  }

  static void keep(FitMask which, const Choice& choice, GroupFit* fits) {
    const unsigned bits = mask_bits(which);
    for (int lane = 0; lane < kLanes; ++lane) {
      if ((bits >> lane & 1) != 0) std::copy_n(choice.entries[lane], 4, fits[lane].entries);
    }
  }

  const Groups& groups_;
  const int first_;
  Columns a_, w_;
};

void search_lanes(const Groups& groups, GroupFit* fits) {
  for (int first = 0; first < kIq2XxsGroups; first += kLanes) {
    Search(groups, first).run(fits + first);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ds4::iq2_xxs
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds4::iq2_xxs {
HWY_EXPORT(search_lanes);

void search(const Groups& groups, GroupFit (&fits)[kIq2XxsGroups]) {
  std::fill(std::begin(fits), std::end(fits), GroupFit{});
  HWY_DYNAMIC_DISPATCH(search_lanes)(groups, fits);
}

}  // namespace ds4::iq2_xxs
#endif
