#pragma once
// Byte-pair encoding of one pre-tokenizer piece: merge the adjacent pair of lowest rank, leftmost
// on ties, until no pair is in the table.
//
// A piece may be megabytes long (letters without a space), so the obvious rescan after each merge
// is quadratic and a denial of service. Here the symbols form a linked list inside a flat array and
// the candidate pairs a heap ordered by (rank, position): O(n log n), no recursion.
#include <cstdint>
#include <vector>

#include "tokenizer/token.h"

namespace ds4 {

struct Merge {
  uint32_t rank = 0;   // index in the merge list; lower merges first
  Token product = -1;  // id of the joined token
};

// (left id, right id) -> Merge: open addressing in one flat array, at most half full, never
// resized. Const access is thread-safe.
class MergeTable {
 public:
  MergeTable() = default;
  explicit MergeTable(int64_t n_merges_max);

  // False, and no change, when the pair is already there. At most n_merges_max pairs (checked).
  bool insert(Token left, Token right, Merge merge);

  // nullptr when the pair does not merge.
  const Merge* find(Token left, Token right) const {
    const uint64_t key = pack(left, right);
    for (uint64_t slot = hash(key);; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == key) return &slots_[slot].merge;
      if (slots_[slot].key == kEmpty) return nullptr;
    }
  }

 private:
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // no id is negative, so no pair packs to this

  static uint64_t pack(Token left, Token right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  // Fibonacci hashing: the high bits of the product depend on every bit of the key.
  uint64_t hash(uint64_t key) const { return (key * 0x9E3779B97F4A7C15u) >> 32 & mask_; }

  std::vector<Slot> slots_ = std::vector<Slot>(1);
  uint64_t mask_ = 0;
  int64_t n_free_ = 0;
};

// Encoder of pieces, with the memory it reuses from one to the next. Single-thread; the table must
// outlive it.
class BpeEncoder {
 public:
  explicit BpeEncoder(const MergeTable& merges) : merges_(merges) {}

  // The symbols of the next piece, one per byte; the caller fills it before encode(). Fewer than
  // 2^31.
  std::vector<Token>& symbols() { return symbols_; }

  // Appends the tokens of symbols() to `out`; symbols() is left in an unspecified state.
  void encode(std::vector<Token>& out);

 private:
  void add_candidate(int32_t left, int32_t right);

  const MergeTable& merges_;
  std::vector<Token> symbols_;     // by position; kGone once merged into its left neighbour
  std::vector<int32_t> next_;      // position of the right neighbour, or n
  std::vector<int32_t> previous_;  // position of the left neighbour, or -1
  std::vector<uint64_t> heap_;     // rank << 32 | position of the left symbol; min-heap
};

}  // namespace ds4
