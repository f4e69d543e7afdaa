#include "tokenizer/bpe.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <random>
#include <vector>

namespace ds4 {
namespace {

// The definition, as slowly as it reads: find the lowest rank, leftmost on ties, merge, start
// again.
std::vector<Token> merge_by_rescan(const MergeTable& merges, std::vector<Token> symbols) {
  for (;;) {
    const Merge* best = nullptr;
    size_t best_at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const Merge* merge = merges.find(symbols[i], symbols[i + 1]);
      if (merge != nullptr && (best == nullptr || merge->rank < best->rank)) {
        best = merge;
        best_at = i;
      }
    }
    if (best == nullptr) return symbols;
    symbols[best_at] = best->product;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
  }
}

// Random merges over four letters, each product a new token that later merges build on.
MergeTable random_merges(uint32_t seed) {
  std::mt19937 random(seed);
  MergeTable merges(40);
  Token next = 4;
  for (uint32_t rank = 0; rank < 40; ++rank) {
    const Token left = static_cast<Token>(random() % next);
    const Token right = static_cast<Token>(random() % next);
    if (merges.insert(left, right, {rank, next})) ++next;
  }
  return merges;
}

TEST(Bpe, HeapGivesWhatTheRescanGives) {
  EXPECT_TRUE(rc::check([] {
    const MergeTable merges = random_merges(*rc::gen::arbitrary<uint32_t>());
    const auto symbols = *rc::gen::container<std::vector<Token>>(rc::gen::inRange<Token>(0, 4));
    BpeEncoder encoder(merges);
    std::vector<Token> out;
    for (int turn = 0; turn < 2; ++turn) {  // the second run meets the memory of the first
      out.clear();
      encoder.symbols() = symbols;
      encoder.encode(out);
      RC_ASSERT(out == merge_by_rescan(merges, symbols));
    }
  }));
}

TEST(Bpe, TiesGoToTheLeft) {
  MergeTable merges(1);
  ASSERT_TRUE(merges.insert(0, 0, {0, 1}));
  BpeEncoder encoder(merges);
  encoder.symbols() = {0, 0, 0, 0, 0};
  std::vector<Token> out;
  encoder.encode(out);
  EXPECT_EQ(out, (std::vector<Token>{1, 1, 0}));
}

TEST(MergeTable, KeepsTheFirstOfARepeatedPair) {
  MergeTable merges(2);
  EXPECT_TRUE(merges.insert(7, 9, {0, 20}));
  EXPECT_FALSE(merges.insert(7, 9, {1, 21}));
  ASSERT_NE(merges.find(7, 9), nullptr);
  EXPECT_EQ(merges.find(7, 9)->product, 20);
  EXPECT_EQ(merges.find(9, 7), nullptr);
}

}  // namespace
}  // namespace ds4
