#include "quant/q8_0.h"

#include "quant/rounding.h"

namespace ds4 {

void encode_block(const float* x, BlockQ8_0* block) {
  const float d = abs_max(x, kQ8_0Elems) / 127.0f;
  const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
  block->d = f32_to_f16(d);
  for (int i = 0; i < kQ8_0Elems; ++i) {
    block->q[i] = static_cast<int8_t>(round_away(x[i] * inverse, -127, 127));
  }
}

}  // namespace ds4
