#include "tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "base/check.h"

namespace ds4 {
namespace {

constexpr Token kGone = -1;

}  // namespace

MergeTable::MergeTable(int64_t n_merges_max)
    : slots_(std::bit_ceil(static_cast<uint64_t>(n_merges_max) * 2 + 2)),
      mask_(slots_.size() - 1),
      n_free_(n_merges_max) {}

bool MergeTable::insert(Token left, Token right, Merge merge) {
  DS4_CHECK(left >= 0 && right >= 0);
  const uint64_t key = pack(left, right);
  uint64_t slot = hash(key);
  while (slots_[slot].key != kEmpty) {
    if (slots_[slot].key == key) return false;
    slot = (slot + 1) & mask_;
  }
  DS4_CHECK(n_free_ > 0);
  --n_free_;
  slots_[slot] = {key, merge};
  return true;
}

void BpeEncoder::add_candidate(int32_t left, int32_t right) {
  const Merge* merge = merges_.find(symbols_[left], symbols_[right]);
  if (merge != nullptr) heap_.push_back(uint64_t{merge->rank} << 32 | static_cast<uint32_t>(left));
}

void BpeEncoder::encode(std::vector<Token>& out) {
  DS4_CHECK(symbols_.size() < static_cast<size_t>(std::numeric_limits<int32_t>::max()));
  const int32_t n = static_cast<int32_t>(symbols_.size());
  next_.resize(n);
  previous_.resize(n);
  heap_.clear();
  for (int32_t i = 0; i < n; ++i) {
    next_[i] = i + 1;
    previous_[i] = i - 1;
    if (i + 1 < n) add_candidate(i, i + 1);
  }
  std::make_heap(heap_.begin(), heap_.end(), std::greater<>());

  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const uint32_t rank = static_cast<uint32_t>(heap_.back() >> 32);
    const int32_t left = static_cast<int32_t>(heap_.back() & 0xFFFFFFFFu);
    heap_.pop_back();

    // A candidate is stale when a merge has changed one of its symbols since. A rank names one
    // pair, so an equal rank means that the pair is still there.
    if (symbols_[left] == kGone || next_[left] == n) continue;
    const int32_t right = next_[left];
    const Merge* merge = merges_.find(symbols_[left], symbols_[right]);
    if (merge == nullptr || merge->rank != rank) continue;

    symbols_[left] = merge->product;
    symbols_[right] = kGone;
    next_[left] = next_[right];
    if (next_[left] < n) previous_[next_[left]] = left;
    const auto push = [&](int32_t l, int32_t r) {
      const size_t n_before = heap_.size();
      add_candidate(l, r);
      if (heap_.size() > n_before) std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    };
    if (previous_[left] >= 0) push(previous_[left], left);
    if (next_[left] < n) push(left, next_[left]);
  }

  for (int32_t i = 0; i < n; i = next_[i]) out.push_back(symbols_[i]);
}

}  // namespace ds4
