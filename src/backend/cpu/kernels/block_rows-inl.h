// The loop over weight rows that all block formats share (panel-inl.h): groups of rows against one
// activation row as they are unpacked, or, where there are several, through a panel in the
// first-level cache that is unpacked once and meets all of them. Compiled once per target.
//
// A Format tells, for the 256 columns of one activation group (fewer at the end of a row):
//   Panel        the unpacked form of a group of rows: codes by granule, scales by lane
//   build()      unpacks columns 256 g ... of the rows
//   multiply()   acc[i] += the panel's part of w . x[i], in the documented order
//   direct()     build and multiply for one x without the way through memory
//   Ahead        Fetch, FetchGroup or NoFetch: build() and direct() call its next() now and then,
//                for as many bytes as they unpack
#if defined(DS4_BACKEND_CPU_BLOCK_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DS4_BACKEND_CPU_BLOCK_ROWS_INL_H_
#undef DS4_BACKEND_CPU_BLOCK_ROWS_INL_H_
#else
#define DS4_BACKEND_CPU_BLOCK_ROWS_INL_H_
#endif

#include "backend/cpu/kernels/panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ds4::cpu {
namespace HWY_NAMESPACE {

inline constexpr int64_t kGroupCols = kActivationGroupElems;

// Activation rows that share each load of a panel's codes.
inline constexpr int kTileX = kL == 16 ? 8 : 4;

HWY_INLINE const ActivationGroup* activation_row(const DotArgs& args, int64_t i) {
  return static_cast<const ActivationGroup*>(args.x[i]);
}

HWY_INLINE void store_sums(const DotArgs& args, int64_t i, int64_t first, ScaleVec sum) {
  float* out = args.out + i * args.out_stride + first;
  const int64_t n = args.n_w - first;
  if (n >= kL) {
    hn::StoreU(sum, ScaleTag(), out);
  } else {
    hn::StoreN(sum, ScaleTag(), out, static_cast<size_t>(n));
  }
}

// Rows are read side by side, which the hardware does not foresee: 16 places at a time, each for a
// short while. So what comes next is fetched, in the order in which it will be needed and some
// lines between every few instructions; many at once fill the places a core has for lines on their
// way, and then it waits.
//
// kFetchCols columns of a group, row by row, are a chunk; kFetchAhead bytes of chunks are on their
// way. Both are small, so that what was fetched is still in the first level when it is read, and a
// row's part is long enough for the hardware to see a stream in it. Measured in docs/perf.md.
inline constexpr int64_t kFetchCols = 512;
inline constexpr int64_t kFetchAhead = 16 << 10;

// Addresses of what is fetched are numbers: past the end of the weights they point at nothing of
// ours, which a prefetch may and a pointer may not.
template <int64_t kBytes, int kLocality = 3>  // 3: into the first level, 2: into the second
HWY_INLINE void fetch_bytes(uintptr_t at) {
  for (uintptr_t i = 0; i < kBytes; i += 64) {
    __builtin_prefetch(reinterpret_cast<const void*>(at + i), 0, kLocality);
  }
}

// Where there is nothing, or nothing known, to follow: what is there already.
HWY_INLINE uintptr_t row_ahead(const DotArgs& args, int64_t row, int64_t first) {
  const bool is_next = row >= args.n_w && args.next != nullptr;
  if (is_next) row -= args.n_w;
  if (!is_next && row >= args.n_w) row = first;
  return reinterpret_cast<uintptr_t>(is_next ? args.next : args.w) +
         static_cast<uintptr_t>(row * args.w_stride);
}

// kPiece: bytes fetched by next(), a row's part of a chunk.
template <int64_t kPiece>
class Fetch {
 public:
  HWY_INLINE explicit Fetch(const DotArgs& args) {
    const int64_t group = kL * args.w_stride;
    n_chunks_ = args.cols % kFetchCols == 0 ? args.cols / kFetchCols : 1;
    n_pieces_ = group / n_chunks_ / kPiece;
    const int64_t ahead = HWY_MAX(1, (kFetchAhead * n_chunks_ + group / 2) / group);
    groups_ahead_ = ahead / n_chunks_;
    chunks_ahead_ = ahead % n_chunks_;
    step_ = n_chunks_ > 1 ? args.w_stride : kPiece;
    to_next_chunk_ = args.w_stride / n_chunks_ - n_pieces_ * step_;
  }

  // Before the group of row `first` is read.
  HWY_INLINE void start(const DotArgs& args, int64_t first) {
    const int64_t row = first + groups_ahead_ * kL;
    at_ = row_ahead(args, row, first) +
          static_cast<uintptr_t>(chunks_ahead_ * (args.w_stride / n_chunks_));
    next_group_ = row_ahead(args, row + kL, first);
    chunks_left_ = n_chunks_ - chunks_ahead_;
    pieces_left_ = n_pieces_;
  }

  HWY_INLINE void next() {
    fetch_bytes<kPiece>(at_);
    at_ += static_cast<uintptr_t>(step_);
    if (--pieces_left_ == 0) {
      pieces_left_ = n_pieces_;
      at_ = --chunks_left_ == 0 ? next_group_ : at_ + static_cast<uintptr_t>(to_next_chunk_);
    }
  }

 private:
  uintptr_t at_ = 0, next_group_ = 0;
  int64_t step_, to_next_chunk_, n_pieces_, n_chunks_, groups_ahead_, chunks_ahead_;
  int64_t pieces_left_ = 0, chunks_left_ = 0;
};

// The next group in one piece, as it stands in memory: for kernels bound by arithmetic, which have
// no registers to spare for a better order.
template <int64_t kPiece>
class FetchGroup {
 public:
  explicit FetchGroup(const DotArgs&) {}
  HWY_INLINE void start(const DotArgs& args, int64_t first) {
    at_ = row_ahead(args, first + kL, first);
  }
  HWY_INLINE void next() {
    fetch_bytes<kPiece>(at_);
    at_ += kPiece;
  }

 private:
  uintptr_t at_ = 0;
};

// Of weights that are read in order the hardware sees what comes next, and fetches it better.
struct NoFetch {
  explicit NoFetch(const DotArgs&) {}
  void start(const DotArgs&, int64_t) {}
};

// A panel's place in its rows, and what collects the sums of a group of weight rows on the way.
struct PanelAt {
  int64_t first_row = 0;
  int64_t g = 0;  // groups of columns before it
  bool is_last = false;
  float* acc = nullptr;  // [n_x][kL]
};

template <class Format, int kX>
HWY_INLINE void multiply_tile(const typename Format::Panel& panel, const DotArgs& args,
                              const PanelAt& at, int64_t i) {
  const ScaleTag d;
  const ActivationGroup* x[kX];
  ScaleVec sum[kX];
  for (int b = 0; b < kX; ++b) {
    x[b] = activation_row(args, i + b) + at.g;
    sum[b] = at.g == 0 ? hn::Zero(d) : hn::Load(d, at.acc + (i + b) * kL);
  }
  Format::template multiply<kX>(sum, panel, x);
  for (int b = 0; b < kX; ++b) {
    if (at.is_last) {
      store_sums(args, i + b, at.first_row, sum[b]);
    } else {
      hn::Store(sum[b], d, at.acc + (i + b) * kL);
    }
  }
}

template <class Format>
HWY_INLINE void multiply_all(const typename Format::Panel& panel, const DotArgs& args,
                             const PanelAt& at) {
  int64_t i = 0;
  for (; i + kTileX <= args.n_x; i += kTileX) multiply_tile<Format, kTileX>(panel, args, at, i);
  if (i + 4 <= args.n_x) {
    multiply_tile<Format, 4>(panel, args, at, i);
    i += 4;
  }
  if (i + 2 <= args.n_x) {
    multiply_tile<Format, 2>(panel, args, at, i);
    i += 2;
  }
  if (i < args.n_x) multiply_tile<Format, 1>(panel, args, at, i);
}

template <class Format>
void dot_rows(const DotArgs& args) {
  typename Format::Ahead fetch(args);
  const int64_t n_groups = (args.cols + kGroupCols - 1) / kGroupCols;
  const auto cols_of = [&](int64_t g) { return HWY_MIN(kGroupCols, args.cols - g * kGroupCols); };
  for (int64_t first = 0; first < args.n_w; first += kL) {
    const Rows rows = group_rows(args, first);
    fetch.start(args, first);
    if (args.n_x == 1) {
      ScaleVec sum = hn::Zero(ScaleTag());
      for (int64_t g = 0; g < n_groups; ++g) {
        sum = Format::direct(sum, rows, g, cols_of(g), activation_row(args, 0)[g], fetch);
      }
      store_sums(args, 0, first, sum);
      continue;
    }
    alignas(64) float acc[kMaxDotRows * kL];
    for (int64_t g = 0; g < n_groups; ++g) {
      typename Format::Panel panel;
      Format::build(panel, rows, g, cols_of(g), fetch);
      multiply_all<Format>(panel, args,
                           {.first_row = first, .g = g, .is_last = g + 1 == n_groups, .acc = acc});
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ds4::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
