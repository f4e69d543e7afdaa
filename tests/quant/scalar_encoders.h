#pragma once
// See scalar_encoders.cpp.
#include "quant/fit.h"
#include "quant/iq2_xxs.h"

namespace ds4::test {

AffineFit scalar_fit_affine(int n, const float* x, const float* w, const AffineSearch& search,
                            uint8_t* codes);

void scalar_encode_block(const float* x, const float* importance, BlockIq2Xxs* block);

}  // namespace ds4::test
