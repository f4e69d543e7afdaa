// The last positions of a 1,048,576-token context. A small model with one layer of each kind gets a
// cache whose first 1,048,448 positions are made up (rows written directly: evaluating a million
// tokens would take hours), and evaluates the remaining 128 for real.
#include <gtest/gtest.h>

#include "tests/support/compare.h"
#include "tests/support/kv_state.h"
#include "tests/support/runner.h"
#include "tests/support/tiny_model.h"

namespace ds4::test {
namespace {

constexpr int64_t kContext = 1048576;
constexpr int64_t kTail = 128;

constexpr int64_t kHeadDim = 128;

ModelConfig one_of_each() {
  ModelConfig c = tiny_config();
  EXPECT_EQ(c.head_dim, kHeadDim);
  c.compress_ratios = {0, 4, 128};
  c.n_layers = 3;
  c.n_hash_layers = 1;
  return c;
}

// Values in (-2, 2) from a counter: fast, and no two rows alike.
void fill(float* row, int64_t n, uint64_t seed) {
  for (int64_t i = 0; i < n; ++i) {
    uint64_t x = (seed + static_cast<uint64_t>(i)) * 0x9e3779b97f4a7c15ULL;
    x ^= x >> 29;
    row[i] = static_cast<float>(static_cast<int64_t>(x >> 40)) / 4194304.0f - 2.0f;
  }
}

// Positions 0 .. length - 1 as if they had been evaluated; `length` is a multiple of 128, so that
// the ratio-128 frontier is empty.
void make_up_history(KvCache& cache, int64_t length, std::span<const int> ratios) {
  must(cache.prepare(length));
  uint64_t seed = 1;
  for (size_t il = 0; il < ratios.size(); ++il) {
    const LayerKv& layer = cache.layer(static_cast<int>(il));
    const auto put = [&](std::byte* row, RowFormat format, int64_t width) {
      float values[kHeadDim];
      fill(values, width, seed += 1009);
      store_values(row, format, values, width);
    };
    for (int64_t r = 0; r < layer.ring.n_rows; ++r) {
      put(layer.ring.row(r), layer.ring.format, kHeadDim);
    }
    const auto fill_rows = [&](const PagedRows& rows, int64_t width) {
      for (int64_t r = 0; r < length / ratios[il]; ++r) put(rows.row(r), rows.format, width);
    };
    if (ratios[il] != 0) fill_rows(layer.attn.rows, kHeadDim);
    if (ratios[il] == 4) fill_rows(layer.index.rows, 128);
  }
  cache.advance(length);
}

class LongContext : public testing::TestWithParam<BackendKind> {
 protected:
  Runner runner(Precision precision, int64_t max_rows = kTail) const {
    return Runner(GetParam(), model_.config(), model_.weights(),
                  {.precision = precision, .max_rows = max_rows});
  }
  TinyModel model_{one_of_each()};
  std::vector<Token> tail_ = random_tokens(kTail, 300, 5);
};

TEST_P(LongContext, TheLastPositionIsReachedAndChunksDoNotMatter) {
  Runner r = runner(Precision::official());
  const auto ratios = r.forward().cache_ratios();
  KvCache cache = r.new_cache(kContext);
  make_up_history(cache, kContext - kTail, ratios);
  const KvPoint before = must(cache.capture());
  const std::vector<float> want = r.prefill(cache, tail_, 1);
  EXPECT_EQ(cache.length(), kContext);
  for (float v : want) ASSERT_TRUE(std::isfinite(v));
  const KvPoint after = must(cache.capture());

  // Full: one more is refused and changes nothing.
  const StepSpan span{&cache, std::span(tail_).first(1), SpanKind::kDecode};
  const auto full = r.forward().run({.spans = {&span, 1}, .logit_rows = {}, .streams_in = {}});
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, ErrorCode::kContextFull);

  // Again from the point before, in uneven chunks that end with single tokens, and through another
  // point in the middle of a window. Copied pages need room of their own.
  must(r.pool().reserve(2 * 128 * kPageRows));
  must(cache.restore(before));
  r.prefill(cache, std::span(tail_).first(61), 0);
  const KvPoint middle = must(cache.capture());
  r.prefill(cache, random_tokens(9, 300, 77), 0);  // another future, taken back
  must(cache.restore(middle));
  std::vector<float> got = r.prefill(cache, std::span(tail_).subspan(61, 65), 1);
  for (Token token : std::span(tail_).subspan(126)) got = r.decode(cache, token);
  EXPECT_TRUE(same_bits(got, want)) << compare_logits(got, want).to_string();
  const KvPoint again = must(cache.capture());
  ASSERT_EQ(again.state.size_bytes(), after.state.size_bytes());
  EXPECT_EQ(std::memcmp(again.state.data(), after.state.data(),
                        static_cast<size_t>(after.state.size_bytes())),
            0);
}

// The oracle of the arithmetic at these positions: both backends agree in the profile without
// roundings, and the position matters (the same tokens elsewhere give other logits).
TEST(LongContextBackends, AgreeAtTheLastPositions) {
#ifdef DS4_SANITIZED
  GTEST_SKIP() << "arithmetic, and minutes under sanitizers; the test above takes the same paths";
#endif
  TinyModel model(one_of_each());
  const std::vector<Token> tail = random_tokens(kTail, 300, 5);
  std::vector<float> logits[2], elsewhere;
  for (const BackendKind kind : {BackendKind::kReference, BackendKind::kCpu}) {
    Runner r(kind, model.config(), model.weights(), {.precision = Precision::hf32()});
    KvCache cache = r.new_cache(kContext);
    make_up_history(cache, kContext - kTail, r.forward().cache_ratios());
    logits[kind == BackendKind::kCpu] = r.prefill(cache, tail, 4);
    if (kind == BackendKind::kReference) continue;
    cache.reset();
    make_up_history(cache, kContext / 2, r.forward().cache_ratios());
    elsewhere = r.prefill(cache, tail, 4);
  }
  const size_t vocab = static_cast<size_t>(model.config().vocab_size);
  for (size_t row = 0; row < 4; ++row) {
    const auto at = [&](const std::vector<float>& all) {
      return std::span(all).subspan(row * vocab, vocab);
    };
    EXPECT_LE(compare_logits(at(logits[1]), at(logits[0])).relative_l2, 1e-5) << row;
    EXPECT_GT(compare_logits(at(elsewhere), at(logits[1])).relative_l2, 1e-3) << row;
  }
}

#ifdef DS4_SANITIZED
const auto kBackends = testing::Values(BackendKind::kCpu);
#else
const auto kBackends = testing::Values(BackendKind::kReference, BackendKind::kCpu);
#endif
INSTANTIATE_TEST_SUITE_P(Backends, LongContext, kBackends,
                         [](const auto& param) { return std::string(backend_name(param.param)); });

}  // namespace
}  // namespace ds4::test
