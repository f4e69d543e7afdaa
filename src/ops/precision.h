#pragma once
// Which of the trained graph's roundings are emulated. Two profiles exist: `official` is what the
// model was trained with and the default; `hf32` switches every emulation off and is what a plain
// float32 implementation computes. Every backend supports both (docs/model.md, "Precision").
#include <string_view>

#include "base/result.h"

namespace ds4 {

struct Precision {
  bool kv_fp8 = true;  // FP8 E4M3 round trip of the non-RoPE dims of raw and compressed KV rows
  bool kv_rope_bf16 = true;  // their RoPE dims rounded to bf16
  bool index_fp4 = true;     // Hadamard and FP4 E2M1 round trip of indexer queries and rows

  static Precision official() { return {}; }
  static Precision hf32() { return {.kv_fp8 = false, .kv_rope_bf16 = false, .index_fp4 = false}; }
  bool operator==(const Precision&) const = default;
};

// "official" or "hf32". Errors: kInvalidArgument, with the names there are.
inline Result<Precision> precision_from_name(std::string_view name) {
  if (name == "official") return Precision::official();
  if (name == "hf32") return Precision::hf32();
  return fail(ErrorCode::kInvalidArgument,
              "precision profile: expected official or hf32, found '" + std::string(name) + "'");
}

}  // namespace ds4
