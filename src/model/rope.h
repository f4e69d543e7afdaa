#pragma once
// The rotation frequencies of RoPE, with the YaRN blend of the compressed layers.
//
// b_i = 1 / base^(2i/d) for the d = rope_head_dim rotated dimensions, the power correctly rounded
// to f32 and then inverted in f32; a compressed layer blends b_i with b_i / factor over the pairs
// between the two YaRN corrections. The order of roundings is part of the model: another order
// differs by one ulp in a quarter of the pairs, and at a position of some thousands that shows in
// the logits.
#include <vector>

#include "model/config.h"

namespace ds4 {

// rope_head_dim / 2 frequencies, f32. `compressed`: for layers with a compressor (base
// compress_rope_base, YaRN); otherwise rope_base without YaRN, also for the MTP block.
std::vector<float> rope_frequencies(const ModelConfig& config, bool compressed);

}  // namespace ds4
