#pragma once
// Memory that attention and the indexer take for each thread, and how their queries find a span.
#include <cstdint>
#include <span>

#include "backend/cpu/index_query.h"
#include "backend/cpu/top_rows.h"
#include "ops/kv_view.h"

namespace ds4::cpu {

// A tile of decoded rows.
inline int64_t tile_bytes(int64_t head_dim) {
  return kAttendTile * head_dim * static_cast<int64_t>(sizeof(float));
}

// What the indexer needs for a part of its work.
struct IndexPart {
  int64_t* n_candidates;  // left behind by a part of the rows
  std::byte* query;       // in lanes
  uint64_t* candidates;
};

inline int64_t index_part_bytes(int64_t n_heads, int64_t topk) {
  const int64_t candidates = TopRows::capacity(topk) * static_cast<int64_t>(sizeof(uint64_t));
  return 64 + (index_query_bytes(n_heads) + candidates + 63) / 64 * 64;
}

inline IndexPart index_part(std::byte* memory, int64_t n_heads) {
  std::byte* query = memory + 64;
  return {reinterpret_cast<int64_t*>(memory), query,
          reinterpret_cast<uint64_t*>(query + index_query_bytes(n_heads))};
}

// The span of batch row `n`; a step has few.
inline const KvSpan& span_of(std::span<const KvSpan> spans, int64_t n) {
  size_t i = 0;
  while (n >= spans[i].first_row + spans[i].n_rows) ++i;
  return spans[i];
}

}  // namespace ds4::cpu
