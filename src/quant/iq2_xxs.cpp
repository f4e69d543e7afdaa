#include "quant/iq2_xxs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "quant/iq2_xxs_codebook.h"
#include "quant/iq2_xxs_search.h"
#include "quant/rounding.h"

namespace ds4 {
namespace {

using iq2_xxs::GroupFit;
using iq2_xxs::Groups;
using iq2_xxs::kGroupElems;
using iq2_xxs::kOctet;

// Splits the values of an octet into magnitudes and sign bits, and returns the 7 that are stored.
// Only an even number of minus signs can be: an odd octet negates the magnitude whose weighted
// square is smallest, and flips its sign bit.
uint32_t split_signs(const float* x, const float* w, float* a) {
  uint32_t bits = 0;
  for (int i = 0; i < kOctet; ++i) {
    a[i] = std::fabs(x[i]);
    if (x[i] < 0) bits |= 1u << i;
  }
  if (std::popcount(bits) % 2 != 0) {
    int cheapest = 0;
    float cost_min = std::numeric_limits<float>::infinity();
    for (int i = 0; i < kOctet; ++i) {
      const float cost = w[i] * x[i] * x[i];
      if (cost < cost_min) {
        cost_min = cost;
        cheapest = i;
      }
    }
    a[cheapest] = -a[cheapest];
    bits ^= 1u << cheapest;
  }
  return bits & 127u;
}

void store_u32(uint32_t value, uint8_t* dst) {
  for (int i = 0; i < 4; ++i) dst[i] = static_cast<uint8_t>(value >> (8 * i));
}

// Sign indices of each group's octets.
using Signs = uint32_t[kIq2XxsGroups][4];

// A scale cannot be stored negative, all signs can be flipped; a group without a scale has no
// signs.
void make_positive(GroupFit& fit, uint32_t (&signs)[4]) {
  if (!fit.fitted) std::fill_n(signs, 4, 0u);
  if (!(fit.scale < 0)) return;
  fit.scale = -fit.scale;
  for (uint32_t& s : signs) s = ~s & 127u;
}

void pack(const GroupFit (&fits)[kIq2XxsGroups], const Signs& signs, BlockIq2Xxs* block) {
  std::memset(block, 0, sizeof(*block));
  float top = 0;
  for (const GroupFit& fit : fits) top = std::max(top, fit.scale);
  if (top == 0) return;
  const float d = top / 31;
  const float inverse = 1 / d;
  block->d = f32_to_f16(d);
  for (int b = 0; b < kIq2XxsGroups; ++b) {
    uint32_t a = 0;
    uint32_t s = static_cast<uint32_t>(round_even(0.5f * (inverse * fits[b].scale - 1), 0, 15))
                 << 28;
    for (int g = 0; g < 4; ++g) {
      a |= static_cast<uint32_t>(fits[b].entries[g]) << (8 * g);
      s |= signs[b][g] << (7 * g);
    }
    store_u32(a, block->payload + 8 * b);
    store_u32(s, block->payload + 8 * b + 4);
  }
}

}  // namespace

void encode_block(const float* x, const float* importance, BlockIq2Xxs* block) {
  float sum_squares = 0;
  for (int i = 0; i < kIq2XxsElems; ++i) sum_squares += x[i] * x[i];
  const float sigma2 = sum_squares / static_cast<float>(kIq2XxsElems);
  Groups groups;
  Signs signs;
  for (int b = 0; b < kIq2XxsGroups; ++b) {
    const float* xs = x + kGroupElems * b;
    for (int i = 0; i < kGroupElems; ++i) {
      groups.w[b][i] = importance[kGroupElems * b + i] * std::sqrt(sigma2 + xs[i] * xs[i]);
      groups.root_w[b][i] = std::sqrt(groups.w[b][i]);
    }
    for (int g = 0; g < 4; ++g) {
      signs[b][g] =
          split_signs(xs + kOctet * g, groups.w[b] + kOctet * g, groups.a[b] + kOctet * g);
    }
  }
  GroupFit fits[kIq2XxsGroups];
  iq2_xxs::search(groups, fits);
  for (int b = 0; b < kIq2XxsGroups; ++b) make_positive(fits[b], signs[b]);
  pack(fits, signs, block);
}

}  // namespace ds4
