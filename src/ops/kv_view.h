#pragma once
// What an op may see of the KV cache: views of one layer's state for each session of a step.
//
//   ring       positions 0 .. pos-1, the last `ring rows` of them, row = position mod rows
//   rows       compressed rows 0 .. floor(pos/ratio)-1, append-only, in pages of kPageRows
//   frontier   tokens of windows that are not complete yet (docs/model.md, "Compressor")
//
// The engine owns the memory and the counters; ops write rows and frontiers where their contracts
// say.
#include <cstddef>
#include <cstdint>

#include "tensor/tensor.h"

namespace ds4 {

// Compressed rows per page. Pages are the unit that sessions and snapshots share.
inline constexpr int64_t kPageRows = 256;

// An append-only table of rows: page i holds rows [i * kPageRows, (i + 1) * kPageRows).
struct PagedRows {
  std::byte* const* pages = nullptr;
  int64_t row_bytes = 0;

  std::byte* row(int64_t r) const { return pages[r / kPageRows] + (r % kPageRows) * row_bytes; }
  float* row_f32(int64_t r) const { return reinterpret_cast<float*>(row(r)); }
};

// Compressed rows and the frontier that feeds them: one for attention, one for the indexer.
struct CompressedKv {
  PagedRows rows;
  // ratio 4: [8, 2h], rows 0-3 the last complete window, rows 4-7 the current one.
  // ratio 128: [128, h]. Scores include the APE; an unused row is (0, -inf).
  Tensor frontier_kv;
  Tensor frontier_score;
};

struct LayerKv {
  Tensor ring;         // [ring rows, head_dim]
  CompressedKv attn;   // empty in ratio-0 layers
  CompressedKv index;  // ratio-4 layers only
};

// How a span's rows came about. A kernel may choose by it, and by nothing else about the batch.
enum class SpanKind { kPrefill, kDecode, kVerify };

// Consecutive positions of one session inside the batch of a step.
struct KvSpan {
  int64_t first_row = 0;  // row of the batch
  int64_t n_rows = 0;
  int64_t first_pos = 0;  // absolute position of first_row; the cache holds positions before it
  SpanKind kind = SpanKind::kPrefill;
  LayerKv kv;
};

}  // namespace ds4
