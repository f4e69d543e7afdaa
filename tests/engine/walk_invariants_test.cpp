// One walk, whatever the batch: a session's bits depend on its own tokens alone. The oracle of each
// test is the same backend taking the same tokens one at a time.
#include <gtest/gtest.h>

#include "tests/support/compare.h"
#include "tests/support/nano.h"
#include "tests/support/runner.h"

namespace ds4::test {
namespace {

#ifdef DS4_SANITIZED
constexpr int64_t kLengths = 140;
constexpr int64_t kLengthStep = 31;
#else
constexpr int64_t kLengths = 300;
constexpr int64_t kLengthStep = 1;
#endif

class WalkInvariants : public testing::TestWithParam<BackendKind> {
 protected:
  static constexpr int64_t kCapacity = 4 * 128 + 40;
  Model model_ = open_nano("q8_0");
  NanoReference reference_ = NanoReference::open();

  Runner runner(int n_threads = 0) {
    return Runner(GetParam(), model_.config(), model_.weights(),
                  {.precision = Precision::official(), .n_threads = n_threads, .max_rows = 512});
  }
  std::span<const Token> prompt(int64_t n) const {
    return std::span(reference_.prompt("mid640").ids).first(static_cast<size_t>(n));
  }
};

// Everything a cache holds, as bytes: rings by position, compressed rows, frontiers.
std::vector<float> state_of(const KvCache& cache, std::span<const int> ratios) {
  std::vector<float> state;
  const auto add = [&](const float* row, int64_t n) { state.insert(state.end(), row, row + n); };
  const auto add_series = [&](const CompressedKv& series, int ratio) {
    for (int64_t r = 0; r < cache.length() / ratio; ++r) {
      add(series.rows.row_f32(r), series.rows.row_bytes / 4);
    }
    for (int64_t r = 0; r < series.frontier_kv.dim(0); ++r) {
      add(series.frontier_kv.row<float>(r), series.frontier_kv.n_cols());
      add(series.frontier_score.row<float>(r), series.frontier_score.n_cols());
    }
  };
  for (size_t i = 0; i < ratios.size(); ++i) {
    const LayerKv& layer = cache.layer(static_cast<int>(i));
    for (int64_t p = std::max<int64_t>(0, cache.length() - 128); p < cache.length(); ++p) {
      add(layer.ring.row<float>(p % layer.ring.dim(0)), layer.ring.dim(1));
    }
    if (ratios[i] != 0) add_series(layer.attn, ratios[i]);
    if (ratios[i] == 4) add_series(layer.index, ratios[i]);
  }
  return state;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

TEST_P(WalkInvariants, PrefillEqualsTokenByTokenAtEveryLength) {
  Runner one = runner(), all = runner();
  KvCache decoded = one.new_cache(kCapacity);
  for (int64_t n = 1; n <= kLengths; ++n) {
    const std::vector<float> want = one.decode(decoded, prompt(n).back());
    if (n % kLengthStep != 0) continue;
    KvCache cache = all.new_cache(kCapacity);
    const std::vector<float> got = all.prefill(cache, prompt(n), 1);
    ASSERT_TRUE(same_bits(got, want))
        << "logits after " << n << " tokens: " << compare_logits(got, want).to_string();
    const auto ratios = all.forward().cache_ratios();
    ASSERT_TRUE(same_bits(state_of(cache, ratios), state_of(decoded, ratios))) << "state at " << n;
  }
}

TEST_P(WalkInvariants, ChunksOfAnySizeGiveTheSameBits) {
  const int64_t n = kLengthStep == 1 ? 540 : 140;  // beyond 4 * topk + 4: the indexer drops rows
  std::vector<float> want;
  for (int64_t chunk : {512, 1, 3, 64, 127, 128, 129}) {
    Runner chunked(GetParam(), model_.config(), model_.weights(),
                   {.precision = Precision::official(), .max_rows = chunk});
    KvCache cache = chunked.new_cache(kCapacity);
    const std::vector<float> got = chunked.prefill(cache, prompt(n), 1);
    if (want.empty()) want = got;
    EXPECT_TRUE(same_bits(got, want))
        << "chunks of " << chunk << ": " << compare_logits(got, want).to_string();
  }
}

TEST_P(WalkInvariants, SessionsInOneStepEqualEachAlone) {
  Runner alone = runner(), batched = runner();
  // Prefill and decode rows of sessions of different lengths in one step.
  const int64_t lengths[] = {130, 1, 7, 64};
  std::vector<std::vector<float>> want;
  std::vector<KvCache> caches;
  std::vector<std::vector<Token>> more;
  for (int64_t n : lengths) {
    KvCache cache = alone.new_cache(kCapacity);
    alone.prefill(cache, prompt(n), 1);
    const std::span<const Token> next = std::span(reference_.prompt("win200").ids);
    more.emplace_back(next.begin(), next.begin() + (n == 7 ? 9 : 1));
    want.push_back(alone.prefill(cache, more.back(), 1));
    caches.push_back(batched.new_cache(kCapacity));
    batched.prefill(caches.back(), prompt(n), 1);
  }
  std::vector<StepSpan> spans;
  std::vector<int64_t> rows;
  int64_t row = 0;
  for (size_t i = 0; i < caches.size(); ++i) {
    spans.push_back(
        {&caches[i], more[i], more[i].size() == 1 ? SpanKind::kDecode : SpanKind::kPrefill});
    row += static_cast<int64_t>(more[i].size());
    rows.push_back(row - 1);
  }
  must(batched.forward().run({.spans = spans, .logit_rows = rows, .streams_in = {}}));
  const std::vector<float> got = to_host(batched.device(), batched.forward().logits());
  const size_t vocab = static_cast<size_t>(model_.config().vocab_size);
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_TRUE(same_bits(std::span(got).subspan(i * vocab, vocab), want[i])) << "session " << i;
  }
}

TEST_P(WalkInvariants, ThreadsDoNotChangeBits) {
  std::vector<float> want;
  for (int n_threads : {1, 2, 3, 7}) {
    Runner threaded = runner(n_threads);
    KvCache cache = threaded.new_cache(kCapacity);
    const std::vector<float> got = threaded.prefill(cache, prompt(133), 1);
    if (want.empty()) want = got;
    EXPECT_TRUE(same_bits(got, want)) << n_threads << " threads";
  }
}

// A pipeline stage is a range of layers that hands its streams on.
TEST_P(WalkInvariants, TwoLayerRangesEqualOneWalk) {
  Runner whole = runner();
  KvCache whole_cache = whole.new_cache(kCapacity);
  const std::vector<float> want = whole.prefill(whole_cache, prompt(135), 1);
  for (int cut : {1, 3, 7}) {
    Runner first(GetParam(), model_.config(), model_.weights(),
                 {.precision = Precision::official(), .layer_end = cut});
    Runner second(GetParam(), model_.config(), model_.weights(),
                  {.precision = Precision::official(), .layer_begin = cut});
    KvCache first_cache = first.new_cache(kCapacity), second_cache = second.new_cache(kCapacity);
    first.prefill(first_cache, prompt(135), 0);
    const StepSpan span{&second_cache, prompt(135), SpanKind::kPrefill};
    const int64_t row = 134;
    must(second.forward().run(
        {.spans = {&span, 1}, .logit_rows = {&row, 1}, .streams_in = first.forward().streams()}));
    EXPECT_TRUE(same_bits(to_host(second.device(), second.forward().logits()), want))
        << "cut before layer " << cut;
  }
}

// What comes later cannot reach back: other tokens at the end leave earlier rows' logits alone.
TEST_P(WalkInvariants, LaterTokensDoNotChangeEarlierLogits) {
  Runner runner_a(GetParam(), model_.config(), model_.weights(),
                  {.precision = Precision::official(), .max_logit_rows = 200});
  std::vector<Token> other(prompt(140).begin(), prompt(140).end());
  for (size_t i = 131; i < other.size(); ++i) other[i] = (other[i] + 17) % 4000 + 3;
  KvCache cache_a = runner_a.new_cache(kCapacity), cache_b = runner_a.new_cache(kCapacity);
  const std::vector<float> a = runner_a.prefill(cache_a, prompt(140), 140);
  const std::vector<float> b = runner_a.prefill(cache_b, other, 140);
  const size_t shared = 131 * static_cast<size_t>(model_.config().vocab_size);
  EXPECT_TRUE(same_bits(std::span(a).first(shared), std::span(b).first(shared)));
  EXPECT_FALSE(same_bits(a, b));
}

TEST_P(WalkInvariants, BadStepsAreRefusedAndChangeNothing) {
  Runner r = runner();
  KvCache cache = r.new_cache(8);
  r.prefill(cache, prompt(5), 1);
  const std::vector<float> state = state_of(cache, r.forward().cache_ratios());
  const std::vector<Token> bad = {4096}, negative = {-1}, many(4, 7), none;
  const auto code_of = [&](const std::vector<Token>& tokens) {
    const StepSpan span{&cache, tokens, SpanKind::kPrefill};
    const Result<void> result =
        r.forward().run({.spans = {&span, 1}, .logit_rows = {}, .streams_in = {}});
    EXPECT_FALSE(result);
    return result ? ErrorCode::kIo : result.error().code;
  };
  EXPECT_EQ(code_of(bad), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(negative), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(none), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(many), ErrorCode::kContextFull);
  EXPECT_EQ(cache.length(), 5);
  EXPECT_TRUE(same_bits(state_of(cache, r.forward().cache_ratios()), state));
}

INSTANTIATE_TEST_SUITE_P(Backends, WalkInvariants,
                         testing::Values(BackendKind::kReference, BackendKind::kCpu),
                         [](const auto& param) { return std::string(backend_name(param.param)); });

}  // namespace
}  // namespace ds4::test
