#pragma once
// The k best rows of a stream of scores, exactly: larger score first, the two zeros equal, NaN as
// -inf, equal scores by smaller row.
//
// A candidate is one integer that orders by that rule:
//
//   bits 63 .. 32   the score's bits, made monotone (negative ones inverted, others with the top
//                   bit set)
//   bits 31 .. 0    ~row
//
// A buffer keeps candidates; when it is full all but the k best go, and the worst of these is the
// bar. Rows come in ascending order, so a later row must score strictly above the bar to enter, and
// one vectorised compare finds those. The order is total: the answer does not depend on how the
// stream was cut, nor on how parts of it were merged.
//
// Thread-compatible; memory is the caller's.
#include <cstdint>

#include "backend/cpu/kernels/kernels.h"

namespace ds4::cpu {

class TopRows {
 public:
  static constexpr int64_t kMaxAdd = 256;  // scores of one add()

  // Candidates that the memory of one must hold.
  static int64_t capacity(int64_t k) { return 4 * k + kMaxAdd; }

  // `memory` holds `n` candidates already: those another one left there with its size().
  TopRows(const Kernels& kernels, uint64_t* memory, int64_t k, int64_t n = 0)
      : kernels_(kernels), best_(memory), k_(k), n_(n) {}

  // Scores of rows first_row .. first_row + n - 1, n <= kMaxAdd; later than all rows before.
  void add(const float* scores, int64_t n, int64_t first_row);

  // Takes the candidates of another part of the stream, which had rows of its own. No add() after
  // it.
  void merge(TopRows& other);

  int64_t size() const { return n_; }

  // Writes the k best rows in ascending order; there have been at least k.
  void finish(int32_t* rows);

 private:
  void append(float score, int64_t row);
  void keep_best();

  const Kernels& kernels_;
  uint64_t* best_;
  const int64_t k_;
  int64_t n_;
  bool full_ = false;  // bar_ is the score of the k-th best so far
  float bar_ = 0;
};

}  // namespace ds4::cpu
