#pragma once
// What an op may see of the KV cache: views of one layer's state for each session of a step.
//
//   ring       positions 0 .. pos-1, the last `ring rows` of them, row = position mod rows
//   rows       compressed rows 0 .. floor(pos/ratio)-1, append-only, in pages of kPageRows
//   frontier   tokens of windows that are not complete yet (docs/model.md, "Compressor")
//
// The engine owns the memory and the counters; ops write rows and frontiers where their contracts
// say. Rows are f32, or packed where the profile has rounded them to what a packed row holds: which
// of the two is the backend's choice (backend/backend.h) and changes no result.
#include <cstddef>
#include <cstdint>

#include "tensor/tensor.h"

namespace ds4 {

// Compressed rows per page. Pages are the unit that sessions and snapshots share.
inline constexpr int64_t kPageRows = 256;

// How a row is stored.
enum class RowFormat {
  kF32,
  kPackedKv,     // FP8 codes and scales, bf16 RoPE channels: quant/packed_kv.h
  kPackedIndex,  // FP4 codes and scales: quant/packed_index.h
};

// Bytes of a row of `width` values: 2048, 584 and (128 values) 512, 68 for the known shapes.
constexpr int64_t kv_row_bytes(RowFormat format, int64_t width) {
  switch (format) {
    case RowFormat::kF32:
      return width * 4;
    case RowFormat::kPackedKv:  // 64 RoPE channels of 2 bytes, the others 1 byte and 1 for each 64
      return (width + 64 + (width - 64) / 64 + 7) / 8 * 8;
    case RowFormat::kPackedIndex:
      return width / 2 + width / 32;
  }
  return 0;
}

// What a backend stores the rows of attention and of the indexer as.
struct KvStorage {
  RowFormat kv = RowFormat::kF32;
  RowFormat index = RowFormat::kF32;
};

// An append-only table of rows: page i holds rows [i * kPageRows, (i + 1) * kPageRows).
struct PagedRows {
  std::byte* const* pages = nullptr;
  int64_t row_bytes = 0;
  RowFormat format = RowFormat::kF32;

  std::byte* row(int64_t r) const { return pages[r / kPageRows] + (r % kPageRows) * row_bytes; }
  float* row_f32(int64_t r) const { return reinterpret_cast<float*>(row(r)); }
};

// The raw rows of a layer: that of position p is row p mod n_rows.
struct RingRows {
  std::byte* data = nullptr;
  int64_t n_rows = 0;
  int64_t row_bytes = 0;
  RowFormat format = RowFormat::kF32;

  RingRows() = default;
  RingRows(std::byte* at, int64_t rows, int64_t width, RowFormat f)
      : data(at), n_rows(rows), row_bytes(kv_row_bytes(f, width)), format(f) {}
  RingRows(const Tensor& rows)  // f32 rows that somebody holds as a tensor
      : RingRows(rows.data(), rows.dim(0), rows.dim(1), RowFormat::kF32) {}

  std::byte* row(int64_t pos) const { return data + pos % n_rows * row_bytes; }
  float* row_f32(int64_t pos) const { return reinterpret_cast<float*>(row(pos)); }
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
  RingRows ring;
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
