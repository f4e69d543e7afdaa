// The compressor: golden numbers (appendix A.8), and the same rows and frontiers however the tokens
// come.
#include "model/rope.h"
#include "tests/backend/backend_test.h"

namespace ds4::test {
namespace {

// The compressor's half of a session.
struct State {
  Array kv, score, rows;
  std::vector<std::byte*> pages;

  State(int ratio, int64_t h, int64_t n_rows) : rows(floats({n_rows, h})) {
    const Shape frontier{ratio == 4 ? 8 : ratio, ratio == 4 ? 2 * h : h};
    kv = floats(frontier);
    score = floats(frontier);
    std::fill_n(score.f(), score.n(), -INFINITY);
    for (int64_t r = 0; r < n_rows; r += kPageRows) pages.push_back(rows.tensor().row_data(r));
  }
  KvSpan span(int64_t first_pos, int64_t n, int64_t first_row = 0) {
    KvSpan s{.first_row = first_row, .n_rows = n, .first_pos = first_pos, .kv = {}};
    s.kv.attn.rows = {pages.data(), rows.tensor().row_stride()};
    s.kv.attn.frontier_kv = kv;
    s.kv.attn.frontier_score = score;
    s.kv.index = s.kv.attn;
    return s;
  }
};

struct Inputs {
  Array kv, gate, ape, norm;
  std::vector<float> freqs;
  CompressParams params;
};

Inputs random_inputs(int ratio, int64_t h, bool index_rows, int64_t n) {
  const int64_t w = ratio == 4 ? 2 * h : h;
  return {random_floats({n, w}, 1),
          random_floats({n, w}, 2),
          random_weights(DType::kF16, {ratio, w}, 3),
          random_floats({h}, 4),
          rope_frequencies(ModelConfig{}, true),
          {.ratio = ratio,
           .rms_eps = 1e-6f,
           .index_rows = index_rows,
           .precision = Precision::official()}};
}

void feed(Ops& ops, State& state, const Inputs& in, int64_t first, int64_t n) {
  const KvSpan span = state.span(first, n);
  ops.compress({&span, 1}, in.kv.tensor().slice(first, n), in.gate.tensor().slice(first, n), in.ape,
               in.norm, in.freqs, in.params);
}

class CompressorTest : public OnEveryHost {};
DS4_ON_EVERY_HOST(CompressorTest);

// A.8 gives pooled values before the norm. Channel 0 is the example; channel 1 holds 1.5
// throughout, so the ratio of the two normalised channels is golden / 1.5.
TEST_P(CompressorTest, PoolsTheGoldenNumbers) {
  State state(4, 2, kPageRows);
  Array kv = floats({8, 4}), gate = floats({8, 4}), ape = floats({4, 4}), norm = floats({2});
  const float biases[4][2] = {{0, 0.1f}, {0.2f, 0}, {-0.1f, 0.3f}, {0.05f, -0.2f}};
  for (int t = 0; t < 8; ++t) {
    const float ft = static_cast<float>(t);
    const float kvs[4] = {0.5f * ft + 1, 1.5f, 2 - 0.25f * ft, 1.5f};
    const float gates[4] = {0.1f * ft, 0, 0.3f - 0.2f * ft, 0};
    std::copy_n(kvs, 4, kv.f() + 4 * t);
    std::copy_n(gates, 4, gate.f() + 4 * t);
  }
  for (int r = 0; r < 4; ++r) {
    ape.f()[4 * r] = biases[r][0];
    ape.f()[4 * r + 2] = biases[r][1];
  }
  norm.f()[0] = norm.f()[1] = 1.0f;
  const KvSpan span = state.span(0, 8);
  host->compress(
      {&span, 1}, kv, gate, ape, norm, {},
      {.ratio = 4, .rms_eps = 1e-6f, .index_rows = false, .precision = Precision::hf32()});
  const float* rows = state.rows.f();
  EXPECT_NEAR(1.5f * rows[0] / rows[1], 1.69674268f, 5e-7f);
  EXPECT_NEAR(1.5f * rows[2] / rows[3], 1.48172311f, 5e-7f);
  EXPECT_NEAR(rows[0] * rows[0] + rows[1] * rows[1], 2.0f, 1e-5f);  // unit mean square
}

// Any cut of the tokens into spans leaves the same rows and frontiers, bit for bit.
TEST_P(CompressorTest, StreamingEqualsBatch) {
  struct Kind {
    int ratio;
    int64_t h;
    bool index_rows;
  };
  constexpr int64_t kTokens = 391;
  for (const Kind& kind : {Kind{4, 512, false}, Kind{4, 128, true}, Kind{128, 512, false}}) {
    const Inputs in = random_inputs(kind.ratio, kind.h, kind.index_rows, kTokens);
    State batch(kind.ratio, kind.h, kPageRows);
    feed(*host.ops, batch, in, 0, kTokens);
    for (int64_t step : {1, 2, 3, 5, 64, 127, 128, 129}) {
      SCOPED_TRACE(testing::Message()
                   << "ratio=" << kind.ratio << " h=" << kind.h << " step=" << step);
      State state(kind.ratio, kind.h, kPageRows);
      for (int64_t p = 0; p < kTokens; p += step) {
        feed(*host.ops, state, in, p, std::min(step, kTokens - p));
      }
      EXPECT_TRUE(state.rows.same_bits(batch.rows));
      EXPECT_TRUE(state.kv.same_bits(batch.kv));
      EXPECT_TRUE(state.score.same_bits(batch.score));
    }
  }
}

// A token of an incomplete window changes no row; a complete one changes rows c and c + 1 at ratio
// 4 (its own and, by series A, the next), and its own alone at ratio 128.
TEST_P(CompressorTest, ATokenReachesTheRowsOfItsWindowAndTheNext) {
  for (int ratio : {4, 128}) {
    constexpr int64_t kTokens = 391;
    const Inputs in = random_inputs(ratio, 128, false, kTokens);
    State plain(ratio, 128, kPageRows);
    feed(*host.ops, plain, in, 0, kTokens);
    for (int64_t token : {0, 3, 4, 130, 255, 387, 388, 390}) {
      Inputs changed = in;
      for (int64_t j = 0; j < changed.kv.tensor().dim(1); ++j) {
        changed.kv.f()[token * changed.kv.tensor().dim(1) + j] += 3.0f;
      }
      State state(ratio, 128, kPageRows);
      feed(*host.ops, state, changed, 0, kTokens);
      const int64_t own = token / ratio;
      for (int64_t c = 0; c < kTokens / ratio; ++c) {
        const bool differs = std::memcmp(state.rows.tensor().row_data(c),
                                         plain.rows.tensor().row_data(c), 128 * 4) != 0;
        EXPECT_EQ(differs, c == own || (ratio == 4 && c == own + 1))
            << "ratio " << ratio << " token " << token << " row " << c;
      }
    }
  }
}

}  // namespace
}  // namespace ds4::test
