#pragma once
// Rows of any floating element type, by DType: the door for code that does not care which format a
// tensor has (reference backend, converter, tests). Thread-safe.
#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "tensor/dtype.h"

namespace ds4 {

// Decodes n values of a row into dst [n]. n is a multiple of the type's block size and `type` is a
// floating type (both checked: loaders have already refused other files). `src` holds
// row_bytes(type, n) bytes; F32, F16 and BF16 may start at any byte, Q8_0, Q4_K, Q2_K and IQ2_XXS
// at an even one, which a GGUF row always does. Exact for the format: no value is rounded beyond
// its definition. An MXFP4 block with a NaN scale decodes to NaN.
void decode_row(DType type, const void* src, float* dst, int64_t n);

// Encodes src [n] into row_bytes(type, n) bytes at dst, byte for byte what docs/formats/quant.md
// defines. `importance` [n] is nullptr or the weights of the squared errors, of which zeros count
// as a little (a column that calibration never saw is not worthless); F32, F16, BF16, Q8_0 and
// MXFP4 ignore it. Alignment as in decode_row. Errors, with nothing written: kInvalidArgument for a
// type that cannot be encoded, a ragged n, a missing importance (needs_importance) or one that is
// negative or not finite; kNonFinite when a block format is given a NaN or an infinity. F32, F16
// and BF16 keep those.
Result<void> encode_row(DType type, const float* src, const float* importance, void* dst,
                        int64_t n);

// True for the formats that weigh errors by an importance: Q4_K, Q2_K, IQ2_XXS.
bool uses_importance(DType type);

// True for IQ2_XXS, whose search has no meaning without weights.
bool needs_importance(DType type);

// The type a command line means: "q8_0", "Q8-0" and "q80" are one; f32 f16 bf16 q8_0 q4_k q2_k
// iq2_xxs mxfp4 exist. Errors: kInvalidArgument with that list.
Result<DType> dtype_from_name(std::string_view name);

}  // namespace ds4
