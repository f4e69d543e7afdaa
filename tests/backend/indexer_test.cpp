// The lightning indexer's choice: exact at the cut, at ties and for values that do not compare.
#include <algorithm>

#include "tests/backend/backend_test.h"

namespace ds4::test {
namespace {

constexpr int64_t kDim = 128, kTopk = 16;

// Index rows and one query whose score of row c is what the test says: with q = e0 of head 0, a
// weight of one and a scale of one, score c = relu(row c [0]); head 1 has weight -1 and looks at
// [1].
struct Rows {
  Array rows;
  std::vector<std::byte*> pages;
  Array ring = floats({128, kDim});
  Array q = floats({1, 2, kDim}), weights = floats({1, 2});

  explicit Rows(const std::vector<float>& scores)
      : rows(floats({(static_cast<int64_t>(scores.size()) / kPageRows + 1) * kPageRows, kDim})) {
    for (size_t c = 0; c < scores.size(); ++c) {
      float* row = rows.f() + static_cast<int64_t>(c) * kDim;
      if (scores[c] < 0) {
        row[1] = -scores[c];
      } else {
        row[0] = scores[c];
      }
    }
    for (int64_t r = 0; r < rows.tensor().dim(0); r += kPageRows)
      pages.push_back(rows.tensor().row_data(r));
    q.f()[0] = 1.0f;
    q.f()[kDim + 1] = 1.0f;
    weights.f()[0] = 1.0f;
    weights.f()[1] = -1.0f;
  }

  KvSpan span(int64_t visible) {
    KvSpan s{.first_row = 0, .n_rows = 1, .first_pos = 4 * visible - 1, .kv = {}};
    if (visible == 0) s.first_pos = 2;
    s.kv.ring = ring.tensor();
    s.kv.index.rows = {pages.data(), kDim * static_cast<int64_t>(sizeof(float))};
    return s;
  }

  std::vector<int32_t> choose(Ops& ops, int64_t visible, int64_t topk = kTopk) {
    Array selected = ints({1, topk});
    const KvSpan s = span(visible);
    ops.index_topk(selected, q, weights, 1.0f, {&s, 1});
    return {selected.i32(), selected.i32() + topk};
  }
};

// The rule by a full sort.
std::vector<int32_t> plain_choice(std::vector<float> scores, int64_t topk = kTopk) {
  std::vector<int32_t> rows(scores.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = static_cast<int32_t>(i);
    if (std::isnan(scores[i])) scores[i] = -INFINITY;
  }
  std::stable_sort(rows.begin(), rows.end(), [&](int32_t a, int32_t b) {
    return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
  });
  rows.resize(std::min(rows.size(), static_cast<size_t>(topk)));
  std::sort(rows.begin(), rows.end());
  rows.resize(static_cast<size_t>(topk), -1);
  return rows;
}

class IndexTopkTest : public OnEveryHost {
 protected:
  void expect_rule(const std::vector<float>& scores, int64_t topk = kTopk) {
    Rows rows(scores);
    EXPECT_EQ(rows.choose(*host.ops, static_cast<int64_t>(scores.size()), topk),
              plain_choice(scores, topk));
  }
};
DS4_ON_EVERY_HOST(IndexTopkTest);

TEST_P(IndexTopkTest, TakesAllRowsUpToTopkThenDropsTheSmallest) {
  std::mt19937 gen(1);
  for (size_t n : {0u, 1u, 15u, 16u, 17u, 18u, 31u, 32u, 33u, 255u, 256u, 257u, 1000u}) {
    std::vector<float> scores;
    for (size_t i = 0; i < n; ++i) scores.push_back(static_cast<float>(gen() % 4096) - 1024.0f);
    SCOPED_TRACE(n);
    expect_rule(scores);
  }
}

TEST_P(IndexTopkTest, EqualScoresPreferTheSmallerRow) {
  expect_rule(std::vector<float>(100, 2.0f));
  expect_rule(std::vector<float>(100, 0.0f));
  // Few values, so that ties lie at the cut, in every page and across the buffer's halves.
  std::mt19937 gen(2);
  for (unsigned n_values : {2u, 3u, 7u}) {
    std::vector<float> scores;
    for (int i = 0; i < 1500; ++i) scores.push_back(static_cast<float>(gen() % n_values));
    expect_rule(scores);
    expect_rule(scores, 1);
    expect_rule(scores, 1024);
  }
}

TEST_P(IndexTopkTest, NegativeScoresAreOrderedToo) {
  std::vector<float> scores;
  for (int i = 0; i < 60; ++i) scores.push_back(-1.0f - static_cast<float>((i * 7) % 31));
  expect_rule(scores);
}

// A row that no head likes scores -0 (negative weight) or +0; the two are one value.
TEST_P(IndexTopkTest, TheTwoZerosAreEqual) {
  Rows rows(std::vector<float>(40, 0.0f));
  for (int64_t c = 0; c < 40; ++c) rows.rows.f()[c * kDim + (c % 2)] = -1.0f;
  const std::vector<int32_t> all_zero = plain_choice(std::vector<float>(40, 0.0f));
  for (float w0 : {1.0f, -1.0f}) {
    rows.weights.f()[0] = w0;
    EXPECT_EQ(rows.choose(*host.ops, 40), all_zero);
  }
}

// 0 * infinity: such a row loses to every finite score, and among themselves the first rows win.
TEST_P(IndexTopkTest, NanCountsAsMinusInfinity) {
  std::vector<float> scores;
  Rows rows(std::vector<float>(40, 0.0f));
  for (int64_t c = 0; c < 40; ++c) {
    float* row = rows.rows.f() + c * kDim;
    if (c % 2 == 0) {
      row[0] = INFINITY;
      scores.push_back(NAN);
    } else {
      row[1] = static_cast<float>(c);
      scores.push_back(-static_cast<float>(c));
    }
  }
  rows.weights.f()[0] = 0.0f;
  EXPECT_EQ(rows.choose(*host.ops, 40), plain_choice(scores));
  EXPECT_EQ(rows.choose(*host.ops, 40, 25), plain_choice(scores, 25));
}

// Small integers make every dot product exact, so both backends must agree on all ties.
TEST_P(IndexTopkTest, AgreesWithTheReferenceOnExactScores) {
  constexpr int64_t kQueries = 5, kHeads = 6, kRows = 700;
  const HostBackend reference = make_host(Host::kReference);
  std::mt19937 gen(3);
  const auto small = [&](Array a) {
    for (int64_t i = 0; i < a.n(); ++i)
      a.f()[i] = static_cast<float>(static_cast<int>(gen() % 5) - 2);
    return a;
  };
  Rows rows(std::vector<float>(kRows, 0.0f));
  rows.rows = small(floats({kPageRows * 3, kDim}));
  for (size_t p = 0; p < 3; ++p)
    rows.pages[p] = rows.rows.tensor().row_data(static_cast<int64_t>(p) * kPageRows);
  const Array q = small(floats({kQueries, kHeads, kDim})),
              weights = small(floats({kQueries, kHeads}));
  KvSpan span = rows.span(kRows - 1);
  span.n_rows = kQueries;
  Array got = ints({kQueries, 64}), want = ints({kQueries, 64});
  host->index_topk(got, q, weights, 0.5f, {&span, 1});
  reference->index_topk(want, q, weights, 0.5f, {&span, 1});
  EXPECT_TRUE(got.same_bits(want));
}

}  // namespace
}  // namespace ds4::test
