// The searches of the block encoders as docs/formats/quant.md defines them, one value at a time:
// what the vector forms in src/quant must equal, byte for byte.
#include "tests/quant/scalar_encoders.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "quant/rounding.h"

namespace ds4::test {
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

constexpr int kOctet = 8;
constexpr int kGroup = 32;
constexpr int kDigitVectors = 6561;  // 3^8
constexpr float kTiny = 1e-15f;      // groups with no larger magnitude are stored as zeros

// A digit vector's number: digit i counts 3^i. Dense, unlike the two-bit codes.
int digits_rank(const uint8_t* digits) {
  int rank = 0;
  for (int i = kOctet - 1; i >= 0; --i) rank = 3 * rank + digits[i];
  return rank;
}

// For every digit vector either its codebook index, or the entries worth trying instead of it.
class Codebook {
 public:
  static const Codebook& get() {
    static const Codebook instance;  // built once, then constant: encoding is thread-safe
    return instance;
  }

  // Codebook index, or -1.
  int index_of(int rank) const { return index_[static_cast<size_t>(rank)]; }

  // Entries at the two smallest distinct distances from the vector, by (distance, index).
  std::span<const uint8_t> neighbours(int rank) const {
    const auto r = static_cast<size_t>(rank);
    return {neighbours_.data() + begin_[r], begin_[r + 1] - begin_[r]};
  }

  const uint8_t* digits(int entry) const { return digits_[static_cast<size_t>(entry)].data(); }
  // 2 * digit + 1, the levels the search works with.
  const float* levels(int entry) const { return levels_[static_cast<size_t>(entry)].data(); }

 private:
  Codebook() {
    index_.fill(-1);
    for (int n = 0; n < kIq2XxsGridSize; ++n) {
      const auto e = static_cast<size_t>(n);
      for (size_t i = 0; i < kOctet; ++i) {
        digits_[e][i] = static_cast<uint8_t>(iq2_xxs::kGridCodes[e] >> (2 * i) & 3);
        levels_[e][i] = static_cast<float>(2 * digits_[e][i] + 1);
      }
      index_[static_cast<size_t>(digits_rank(digits_[e].data()))] = static_cast<int16_t>(n);
    }
    for (int rank = 0; rank < kDigitVectors; ++rank) {
      begin_[static_cast<size_t>(rank)] = static_cast<uint32_t>(neighbours_.size());
      if (index_of(rank) < 0) append_neighbours(rank);
    }
    begin_[kDigitVectors] = static_cast<uint32_t>(neighbours_.size());
  }

  void append_neighbours(int rank) {
    int distance[kIq2XxsGridSize];
    int nearest = std::numeric_limits<int>::max();
    int second = nearest;
    for (int n = 0; n < kIq2XxsGridSize; ++n) {
      distance[n] = 0;
      int rest = rank;
      for (int i = 0; i < kOctet; ++i, rest /= 3) {
        const int step = rest % 3 - digits(n)[i];
        distance[n] += step * step;
      }
      if (distance[n] < nearest) {
        second = nearest;
        nearest = distance[n];
      } else if (distance[n] > nearest && distance[n] < second) {
        second = distance[n];
      }
    }
    for (const int wanted : {nearest, second}) {
      for (int n = 0; n < kIq2XxsGridSize; ++n) {
        if (distance[n] == wanted) neighbours_.push_back(static_cast<uint8_t>(n));
      }
    }
  }

  std::array<std::array<uint8_t, kOctet>, kIq2XxsGridSize> digits_{};
  std::array<std::array<float, kOctet>, kIq2XxsGridSize> levels_{};
  std::array<int16_t, kDigitVectors> index_{};
  std::array<uint32_t, kDigitVectors + 1> begin_{};
  std::vector<uint8_t> neighbours_;
};

// One group of 32 being fitted.
struct Group {
  float a[kGroup];       // magnitudes; one of an octet may be negative, see split_signs()
  float w[kGroup];       // weights
  float root_w[kGroup];  // their square roots, which choose among codebook neighbours
  uint32_t signs[4];     // 7-bit sign indices
};

struct GroupFit {
  float scale = 0;
  uint32_t grid_index[4] = {};
  uint32_t signs[4] = {};
};

// Splits values into magnitudes and sign bits. Only an even number of minus signs can be stored: an
// odd octet negates the magnitude whose weighted square is smallest, and flips its sign bit.
void split_signs(const float* x, Group* group) {
  for (int g = 0; g < 4; ++g) {
    uint32_t bits = 0;
    for (int i = 0; i < kOctet; ++i) {
      const float value = x[kOctet * g + i];
      group->a[kOctet * g + i] = std::fabs(value);
      if (value < 0) bits |= 1u << i;
    }
    if (std::popcount(bits) % 2 != 0) {
      int cheapest = 0;
      float cost_min = std::numeric_limits<float>::infinity();
      for (int i = 0; i < kOctet; ++i) {
        const float value = x[kOctet * g + i];
        const float cost = group->w[kOctet * g + i] * value * value;
        if (cost < cost_min) {
          cost_min = cost;
          cheapest = i;
        }
      }
      group->a[kOctet * g + cheapest] = -group->a[kOctet * g + cheapest];
      bits ^= 1u << cheapest;
    }
    group->signs[g] = bits & 127u;
  }
}

// The neighbour that fits best at `scale`; the first of equally good ones.
int best_neighbour(const Codebook& book, int rank, const float* a, const float* root_w,
                   float scale) {
  int best = -1;
  float best_error = std::numeric_limits<float>::infinity();
  for (const uint8_t entry : book.neighbours(rank)) {
    const float* levels = book.levels(entry);
    float error = 0;
    for (int i = 0; i < kOctet; ++i) {
      const float e = scale * levels[i] - a[i];
      error += root_w[i] * e * e;
    }
    if (error < best_error) {
      best_error = error;
      best = entry;
    }
  }
  return best < 0 ? book.neighbours(rank).front() : best;
}

// Codebook entries for the group at inverse scale k; `scale` is what neighbours are judged with.
void choose_entries(const Codebook& book, const Group& group, float k, float scale,
                    uint32_t* entries) {
  for (int g = 0; g < 4; ++g) {
    const float* a = group.a + kOctet * g;
    uint8_t digits[kOctet];
    for (int i = 0; i < kOctet; ++i) {
      digits[i] = static_cast<uint8_t>(round_even(0.5f * (k * a[i] - 1), 0, 2));
    }
    const int rank = digits_rank(digits);
    const int index = book.index_of(rank);
    entries[g] = static_cast<uint32_t>(
        index >= 0 ? index : best_neighbour(book, rank, a, group.root_w + kOctet * g, scale));
  }
}

// P = sum w*a*L and Q = sum w*L*L; the best scale for these entries is P/Q.
struct Projection {
  float p = 0;
  float q = 0;
};

Projection project(const Codebook& book, const Group& group, const uint32_t* entries) {
  Projection sums;
  for (int g = 0; g < 4; ++g) {
    const float* levels = book.levels(static_cast<int>(entries[g]));
    for (int i = 0; i < kOctet; ++i) {
      const float w = group.w[kOctet * g + i];
      sums.p += w * group.a[kOctet * g + i] * levels[i];
      sums.q += w * levels[i] * levels[i];
    }
  }
  return sums;
}

// Scale and entries of one group; an all-zero fit when nothing in it is worth a level.
GroupFit fit_group(const Codebook& book, const Group& group) {
  GroupFit fit;
  if (*std::max_element(group.a, group.a + kGroup) < kTiny) return fit;
  uint8_t ignored_codes[kGroup];
  fit.scale = fit_positive(kGroup, 4, group.a, group.w, ignored_codes);
  const float peak = 3 * fit.scale;
  if (!(peak > 0)) return GroupFit{};

  float best = 0;
  for (int t = -6; t <= 6; ++t) {
    const float k = (5 + 0.1f * static_cast<float>(t)) / peak;
    uint32_t entries[4];
    choose_entries(book, group, k, 1 / k, entries);
    const Projection sums = project(book, group, entries);
    if (sums.q > 0 && sums.p * sums.p > best * sums.q) {
      fit.scale = sums.p / sums.q;
      best = fit.scale * sums.p;
      std::copy_n(entries, 4, fit.grid_index);
    }
  }
  if (fit.scale > 0) {
    choose_entries(book, group, 1 / fit.scale, fit.scale, fit.grid_index);
    const Projection sums = project(book, group, fit.grid_index);
    if (sums.q > 0) fit.scale = sums.p / sums.q;
  }
  std::copy_n(group.signs, 4, fit.signs);
  if (fit.scale < 0) {  // a scale cannot be stored negative, all signs can be flipped
    fit.scale = -fit.scale;
    for (uint32_t& signs : fit.signs) signs = ~signs & 127u;
  }
  return fit;
}

void store_u32(uint32_t value, uint8_t* dst) {
  for (int i = 0; i < 4; ++i) dst[i] = static_cast<uint8_t>(value >> (8 * i));
}

void pack(const GroupFit (&fits)[kIq2XxsGroups], BlockIq2Xxs* block) {
  std::memset(block, 0, sizeof(*block));
  float top = 0;
  for (const GroupFit& fit : fits) top = std::max(top, fit.scale);
  if (top == 0) return;
  const float d = top / 31;
  const float inverse = 1 / d;
  block->d = f32_to_f16(d);
  for (int b = 0; b < kIq2XxsGroups; ++b) {
    const GroupFit& fit = fits[b];
    uint32_t a = 0;
    uint32_t s = static_cast<uint32_t>(round_even(0.5f * (inverse * fit.scale - 1), 0, 15)) << 28;
    for (int g = 0; g < 4; ++g) {
      a |= fit.grid_index[g] << (8 * g);
      s |= fit.signs[g] << (7 * g);
    }
    store_u32(a, block->payload + 8 * b);
    store_u32(s, block->payload + 8 * b + 4);
  }
}

}  // namespace

AffineFit scalar_fit_affine(int n, const float* x, const float* w, const AffineSearch& search,
                            uint8_t* codes) {
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

void scalar_encode_block(const float* x, const float* importance, BlockIq2Xxs* block) {
  const Codebook& book = Codebook::get();
  float sum_squares = 0;
  for (int i = 0; i < kIq2XxsElems; ++i) sum_squares += x[i] * x[i];
  const float sigma2 = sum_squares / static_cast<float>(kIq2XxsElems);
  GroupFit fits[kIq2XxsGroups];
  for (int b = 0; b < kIq2XxsGroups; ++b) {
    const float* xs = x + kGroup * b;
    Group group;
    for (int i = 0; i < kGroup; ++i) {
      group.w[i] = importance[kGroup * b + i] * std::sqrt(sigma2 + xs[i] * xs[i]);
      group.root_w[i] = std::sqrt(group.w[i]);
    }
    split_signs(xs, &group);
    fits[b] = fit_group(book, group);
  }
  pack(fits, block);
}

}  // namespace ds4::test
