#pragma once
// The indexer queries of one position, put in the order that the scoring kernels read: heads in
// lanes (kernels/kernels.h). Thread-compatible.
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/kernels.h"
#include "ops/kv_view.h"

namespace ds4::cpu {

// Bytes of memory that make_index_query() takes for `n_heads`, for rows of either format.
int64_t index_query_bytes(int64_t n_heads);

// q [n_heads, kIndexDim], weights [n_heads] times `scale`, for rows of `format`. For packed rows q
// has been through the FP4 round trip; a NaN in a block makes its products NaN, as in f32. The
// result points into `memory`, aligned to 64.
IndexQuery make_index_query(std::byte* memory, const float* q, const float* weights, float scale,
                            int64_t n_heads, RowFormat format);

}  // namespace ds4::cpu
