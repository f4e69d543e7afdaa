// Mixed attention over raw and compressed rows.
//
// A running softmax over tiles of kAttendTile rows, in the canonical order of ops/ops.h: raw rows
// by position, compressed rows by index, the sink last. Tiles start at the query's first visible
// row and again at its first compressed row, so they depend on the query alone; and no buffer grows
// with the context. Packed rows are decoded into a tile, once for all heads of a part.
#include <algorithm>
#include <cmath>

#include "backend/cpu/attention_scratch.h"
#include "backend/cpu/cpu_ops.h"

namespace ds4::cpu {
namespace {

// Chosen rows lie anywhere in memory, and a row takes less time to decode than to arrive: lines are
// asked for this many rows ahead.
constexpr int64_t kPrefetchRows = 8;
constexpr int64_t kLineBytes = 64;

void prefetch(const std::byte* row, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += kLineBytes) __builtin_prefetch(row + at);
}

// Collects rows into tiles and runs the kernel on each full one.
class TileRunner {
 public:
  // `tile` holds kAttendTile rows of args.head_dim.
  TileRunner(const Kernels& kernels, float* tile, const AttendArgs& args)
      : kernels_(kernels), tile_(tile), args_(args) {
    args_.rows = rows_;
  }
  void add(const std::byte* row, RowFormat format) {
    if (format == RowFormat::kF32) {
      rows_[args_.n_rows] = reinterpret_cast<const float*>(row);
    } else {
      float* values = tile_ + args_.n_rows * args_.head_dim;
      kernels_.unpack_kv(values, row, args_.head_dim);
      rows_[args_.n_rows] = values;
    }
    if (++args_.n_rows == kAttendTile) flush();
  }
  void flush() {
    if (args_.n_rows > 0) kernels_.attend(args_);
    args_.n_rows = 0;
  }

 private:
  const Kernels& kernels_;
  float* tile_;
  AttendArgs args_;
  const float* rows_[kAttendTile];
};

// What a query sees.
struct Query {
  const KvSpan* span = nullptr;
  int64_t pos = 0;
  ConstTensor kv;  // rows of the batch
  const int32_t* selected =
      nullptr;  // chosen compressed rows, n_selected of them, -1 ends; or null
  int64_t n_selected = 0;
};

// Rows row_at(0) .. row_at(n - 1) of one format.
template <typename RowAt>
void add_rows(TileRunner& tiles, int64_t n, RowFormat format, int64_t row_bytes, RowAt row_at) {
  for (int64_t i = 0; i < std::min(kPrefetchRows, n); ++i) prefetch(row_at(i), row_bytes);
  for (int64_t i = 0; i < n; ++i) {
    if (i + kPrefetchRows < n) prefetch(row_at(i + kPrefetchRows), row_bytes);
    tiles.add(row_at(i), format);
  }
}

void add_visible_rows(TileRunner& tiles, const Query& query, const AttentionParams& params) {
  const KvSpan& span = *query.span;
  const RingRows& ring = span.kv.ring;
  const int64_t first = std::max<int64_t>(0, query.pos - params.window + 1);
  add_rows(tiles, span.first_pos - first, ring.format, ring.row_bytes,
           [&](int64_t i) { return ring.row(first + i); });
  for (int64_t p = std::max(first, span.first_pos); p <= query.pos; ++p) {
    tiles.add(query.kv.row_data(span.first_row + p - span.first_pos), RowFormat::kF32);
  }
  tiles.flush();
  if (params.ratio == 0) return;
  const PagedRows& rows = span.kv.attn.rows;
  if (query.selected != nullptr) {
    const int32_t* const chosen = query.selected;
    add_rows(tiles, std::find(chosen, chosen + query.n_selected, -1) - chosen, rows.format,
             rows.row_bytes, [&](int64_t i) { return rows.row(chosen[i]); });
  } else {
    add_rows(tiles, (query.pos + 1) / params.ratio, rows.format, rows.row_bytes,
             [&](int64_t c) { return rows.row(c); });
  }
  tiles.flush();
}

}  // namespace

void CpuOps::do_attention(Tensor out, ConstTensor q, ConstTensor kv, ConstTensor sinks,
                          ConstTensor selected, std::span<const KvSpan> spans,
                          const AttentionParams& params) {
  const int64_t n_heads = q.dim(1), head_dim = q.dim(2);
  DS4_CHECK(n_heads <= kMaxHeads && head_dim % 64 == 0);

  // Heads [first, first + n) of query row `row`.
  const auto run = [&](int64_t row, int64_t first, int64_t n, float* tile) {
    const KvSpan& span = span_of(spans, row);
    const float* const sink = sinks.row<float>(0) + first;
    float max[kMaxHeads], sum[kMaxHeads];
    float* const head_out = out.row<float>(row * n_heads + first);
    std::copy_n(sink, n, max);
    std::fill_n(sum, n, 0.0f);
    std::fill_n(head_out, n * head_dim, 0.0f);
    const AttendArgs args{.q = q.row<float>(row * n_heads + first),
                          .n_heads = n,
                          .head_dim = head_dim,
                          .scale = 1.0f / std::sqrt(static_cast<float>(head_dim)),
                          .max = max,
                          .sum = sum,
                          .out = head_out};
    TileRunner tiles(kernels_, tile, args);
    add_visible_rows(tiles,
                     {.span = &span,
                      .pos = span.first_pos + row - span.first_row,
                      .kv = kv,
                      .selected = selected.empty() ? nullptr : selected.row<int32_t>(row),
                      .n_selected = selected.empty() ? 0 : selected.dim(1)},
                     params);
    kernels_.finish_attention(args, sink);
  };
  // Pieces are parts of all (query, head) pairs, so that a piece's number finds its tile.
  const int64_t n_pairs = q.n_rows(), n_parts = pool_.n_threads();
  float* const all_tiles = tiles_.take<float>(n_parts * kAttendTile * head_dim);
  pool_.parallel_for(n_parts, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const int64_t last = n_pairs * (part + 1) / n_parts;
      for (int64_t i = n_pairs * part / n_parts; i < last;) {
        const int64_t first = i % n_heads, n = std::min(n_heads - first, last - i);
        run(i / n_heads, first, n, all_tiles + part * kAttendTile * head_dim);
        i += n;
      }
    }
  });
}

}  // namespace ds4::cpu
