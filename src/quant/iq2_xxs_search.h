#pragma once
// The search behind the encoder of IQ2_XXS: a scale and codebook entries for each group of 32.
// Thread-safe: no state. Source: as fit.h.
#include <cstdint>

#include "quant/iq2_xxs.h"

namespace ds4::iq2_xxs {

inline constexpr int kGroupElems = 32;

// The groups of a block, ready for the search.
struct Groups {
  // Magnitudes; at most one of an octet may be negative, see split_signs() of iq2_xxs.cpp.
  alignas(64) float a[kIq2XxsGroups][kGroupElems];
  alignas(64) float w[kIq2XxsGroups][kGroupElems];       // weights
  alignas(64) float root_w[kIq2XxsGroups][kGroupElems];  // their square roots, which choose among
                                                         // codebook neighbours
};

struct GroupFit {
  bool fitted = false;  // false: nothing in the group is worth a level
  float scale = 0;      // may be negative
  uint8_t entries[4] = {};
};

// Fits all groups of a block.
void search(const Groups& groups, GroupFit (&fits)[kIq2XxsGroups]);

}  // namespace ds4::iq2_xxs
