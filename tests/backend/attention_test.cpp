// Attention at the edges of the window and of the compressed rows, read from the ring and from the
// batch, against the formula in f64; the sink; and one answer however the rows arrive.
#include "tests/backend/backend_test.h"

namespace ds4::test {
namespace {

constexpr int64_t kHeads = 3, kDim = 192, kWindow = 128, kRing = 256;
constexpr int64_t kEdges[] = {0, 3, 4, 7, 126, 127, 128, 129, 255, 256, 600};

// A history of raw rows by position and compressed rows by index, from which caches are cut.
struct History {
  int64_t length;
  Array raw, compressed, q, sinks;

  explicit History(int64_t n)
      : length(n),
        raw(random_floats({n, kDim}, 1)),
        compressed(random_floats({kPageRows * 3, kDim}, 2)),
        q(random_floats({n, kHeads, kDim}, 3)),
        sinks(random_floats({kHeads}, 4)) {}
};

// A session that holds positions before `first_pos`, with its rows in pages.
struct Session {
  Array ring = floats({kRing, kDim});
  std::vector<std::byte*> pages;
  KvSpan span;

  Session(History& history, int64_t first_pos, int64_t n_rows, int64_t first_row = 0) {
    for (int64_t p = std::max<int64_t>(0, first_pos - kRing); p < first_pos; ++p) {
      std::memcpy(ring.tensor().row_data(p % kRing), history.raw.tensor().row_data(p),
                  kDim * sizeof(float));
    }
    for (int64_t page = 0; page < 3; ++page) {
      pages.push_back(history.compressed.tensor().row_data(page * kPageRows));
    }
    span = {.first_row = first_row, .n_rows = n_rows, .first_pos = first_pos, .kv = {}};
    span.kv.ring = ring.tensor();
    span.kv.attn.rows = {pages.data(), kDim * static_cast<int64_t>(sizeof(float))};
  }
  Session(const Session&) = delete;
};

// The formula over the rows a query at `pos` sees, in f64.
std::vector<double> plain_head(const History& h, int64_t pos, int64_t head, int ratio,
                               const std::vector<int32_t>* selected) {
  std::vector<const float*> rows;
  for (int64_t p = std::max<int64_t>(0, pos - kWindow + 1); p <= pos; ++p) {
    rows.push_back(h.raw.tensor().row<float>(p));
  }
  if (ratio != 0) {
    const int64_t visible = (pos + 1) / ratio;
    if (selected == nullptr) {
      for (int64_t c = 0; c < visible; ++c) rows.push_back(h.compressed.tensor().row<float>(c));
    } else {
      for (int32_t c : *selected) {
        if (c >= 0) rows.push_back(h.compressed.tensor().row<float>(c));
      }
    }
  }
  const float* q = h.q.tensor().row<float>(pos * kHeads + head);
  const double sink = static_cast<double>(h.sinks.f()[head]);
  std::vector<double> scores;
  double max = sink;
  for (const float* row : rows) {
    double s = 0;
    for (int64_t d = 0; d < kDim; ++d) s += static_cast<double>(q[d]) * static_cast<double>(row[d]);
    scores.push_back(s / std::sqrt(static_cast<double>(kDim)));
    max = std::max(max, scores.back());
  }
  double sum = std::exp(sink - max);
  std::vector<double> out(kDim);
  for (size_t i = 0; i < rows.size(); ++i) {
    const double e = std::exp(scores[i] - max);
    sum += e;
    for (size_t d = 0; d < kDim; ++d) out[d] += e * static_cast<double>(rows[i][d]);
  }
  for (double& value : out) value /= sum;
  return out;
}

Array plain_attention(const History& h, int64_t first_pos, int64_t n_rows, int ratio,
                      const std::vector<int32_t>* selected) {
  Array out = floats({n_rows, kHeads, kDim});
  for (int64_t n = 0; n < n_rows; ++n) {
    for (int64_t head = 0; head < kHeads; ++head) {
      const std::vector<double> row = plain_head(h, first_pos + n, head, ratio, selected);
      for (int64_t d = 0; d < kDim; ++d) {
        out.f()[(n * kHeads + head) * kDim + d] = static_cast<float>(row[static_cast<size_t>(d)]);
      }
    }
  }
  return out;
}

// Rows [first_pos, first_pos + n_rows) as one span.
Array attend(Ops& ops, History& h, int64_t first_pos, int64_t n_rows, int ratio,
             const Array* selected = nullptr) {
  const Session session(h, first_pos, n_rows);
  Array out = floats({n_rows, kHeads, kDim});
  ops.attention(out, h.q.tensor().slice(first_pos, n_rows), h.raw.tensor().slice(first_pos, n_rows),
                h.sinks, selected == nullptr ? ConstTensor() : selected->tensor(),
                {&session.span, 1}, {.window = kWindow, .ratio = ratio});
  return out;
}

class AttentionTest : public OnEveryHost {};
DS4_ON_EVERY_HOST(AttentionTest);

// 2e-6: an f32 softmax over up to 278 rows.
TEST_P(AttentionTest, AgreesWithTheFormulaAtWindowEdges) {
  History h(601);
  for (int ratio : {0, 4, 128}) {
    for (int64_t pos : kEdges) {
      SCOPED_TRACE(testing::Message() << "ratio=" << ratio << " pos=" << pos);
      EXPECT_LE(relative_l2(attend(*host.ops, h, pos, 1, ratio),
                            plain_attention(h, pos, 1, ratio, nullptr)),
                2e-6);
    }
  }
}

TEST_P(AttentionTest, SeesOnlyTheSelectedRows) {
  History h(301);
  constexpr int64_t kTopk = 8;
  const std::vector<std::vector<int32_t>> lists = {{-1, -1, -1, -1, -1, -1, -1, -1},
                                                   {0, -1, -1, -1, -1, -1, -1, -1},
                                                   {1, 5, 9, 33, 70, -1, -1, -1},
                                                   {0, 1, 2, 3, 4, 72, 73, 74}};
  for (const std::vector<int32_t>& list : lists) {
    Array selected = ints({1, kTopk});
    std::copy_n(list.data(), kTopk, selected.i32());
    EXPECT_LE(relative_l2(attend(*host.ops, h, 300, 1, 4, &selected),
                          plain_attention(h, 300, 1, 4, &list)),
              2e-6);
  }
}

// A position's row is the same whether its window comes from the ring, from the batch or from both.
TEST_P(AttentionTest, GivesOneAnswerHoweverThePromptIsCut) {
  History h(300);
  for (int ratio : {0, 4, 128}) {
    const Array whole = attend(*host.ops, h, 0, 300, ratio);
    for (int64_t first : {1, 3, 100, 127, 128, 129, 256, 299}) {
      const Array rest = attend(*host.ops, h, first, 300 - first, ratio);
      EXPECT_EQ(std::memcmp(rest.f(), whole.f() + first * kHeads * kDim,
                            static_cast<size_t>(rest.n_bytes())),
                0)
          << "ratio " << ratio << " cut at " << first;
    }
  }
}

TEST_P(AttentionTest, SpansOfABatchDoNotSeeEachOther) {
  History a(140), b(300);
  const Session sa(a, 137, 2, 0), sb(b, 200, 3, 2);
  Array q = floats({5, kHeads, kDim}), kv = floats({5, kDim}), out = floats({5, kHeads, kDim});
  const auto put = [](Array& dst, int64_t row, const Array& src, int64_t first, int64_t n,
                      int64_t width) {
    std::memcpy(dst.f() + row * width, src.f() + first * width, static_cast<size_t>(n * width) * 4);
  };
  put(q, 0, a.q, 137, 2, kHeads * kDim);
  put(q, 2, b.q, 200, 3, kHeads * kDim);
  put(kv, 0, a.raw, 137, 2, kDim);
  put(kv, 2, b.raw, 200, 3, kDim);
  const KvSpan spans[] = {sa.span, sb.span};
  host->attention(out, q, kv, a.sinks, {}, spans, {.window = kWindow, .ratio = 128});
  const Array alone_a = attend(*host.ops, a, 137, 2, 128),
              alone_b = attend(*host.ops, b, 200, 3, 128);
  EXPECT_EQ(std::memcmp(out.f(), alone_a.f(), static_cast<size_t>(alone_a.n_bytes())), 0);
  EXPECT_EQ(std::memcmp(out.f() + alone_a.n(), alone_b.f(), static_cast<size_t>(alone_b.n_bytes())),
            0);
}

// Without a sink the weights sum to 1: equal rows come out as they are. A huge sink takes
// everything.
TEST_P(AttentionTest, SinkTakesNothingOrEverything) {
  History h(200);
  for (int64_t p = 1; p < 200; ++p) {
    std::memcpy(h.raw.tensor().row_data(p), h.raw.tensor().row_data(0), kDim * sizeof(float));
  }
  for (int64_t i = 0; i < kHeads; ++i) h.sinks.f()[i] = -1e30f;
  Array out = attend(*host.ops, h, 199, 1, 0);
  for (int64_t i = 0; i < out.n(); ++i) {
    EXPECT_NEAR(out.f()[i], h.raw.f()[i % kDim], 2e-6f * (1 + std::fabs(h.raw.f()[i % kDim])));
  }
  for (int64_t i = 0; i < kHeads; ++i) h.sinks.f()[i] = 1e30f;
  out = attend(*host.ops, h, 199, 1, 0);
  for (int64_t i = 0; i < out.n(); ++i) EXPECT_EQ(out.f()[i], 0.0f);
}

// Appendix A.9: scores (0.5, 1.0, -0.3), sink 0.2, values (1, 2, 3).
TEST_P(AttentionTest, SinkGivesTheGoldenNumber) {
  Array q = floats({3, 1, 64}), kv = floats({3, 64}), sinks = floats({1}), out = floats({3, 1, 64});
  const float scores[] = {0.5f, 1.0f, -0.3f};
  for (int64_t i = 0; i < 3; ++i) {
    q.f()[i * 64 + 1] = 1.0f;
    kv.f()[i * 64] = static_cast<float>(i + 1);
    kv.f()[i * 64 + 1] = scores[i] * 8.0f;  // sqrt(64)
  }
  sinks.f()[0] = 0.2f;
  Array ring = floats({128, 64});
  KvSpan span{.first_row = 0, .n_rows = 3, .first_pos = 0, .kv = {}};
  span.kv.ring = ring.tensor();
  host->attention(out, q, kv, sinks, {}, {&span, 1}, {.window = kWindow, .ratio = 0});
  EXPECT_NEAR(out.f()[2 * 64], 1.47059726f, 1e-6f);
}

}  // namespace
}  // namespace ds4::test
