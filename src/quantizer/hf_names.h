#pragma once
// GGUF tensor names and their names in the official checkpoint. Table: docs/formats/gguf.md.
#include <string>
#include <string_view>

#include "model/tensor_table.h"

namespace ds4 {

// "blk.3.attn_q_a.weight" -> "layers.3.attn.wq_a.weight", "mtp.0.norm.weight" -> itself. For routed
// experts the name has "{}" in place of the expert's number: "layers.3.ffn.experts.{}.w1.weight".
// `gguf_name` is one that visit_weights() makes (checked).
std::string hf_name(std::string_view gguf_name);

// Name of expert `e` from such a name.
std::string hf_expert_name(const std::string& pattern, int64_t e);

// The scales of a quantized weight: "X.weight" -> "X.scale".
std::string hf_scale_name(std::string_view weight_name);

}  // namespace ds4
