// One walk, whatever the batch: a session's bits depend on its own tokens alone. The oracle of each
// test is the same backend taking the same tokens one at a time, or alone, or in one piece.
#include <gtest/gtest.h>

#include <map>

#include "tests/engine/walk_fixture.h"
#include "tests/support/compare.h"

namespace ds4::test {
namespace {

class WalkInvariants : public WalkTest {};

// Every length up to 300 on the tiny model: all edges of the window (128), of both ratios (4, 128)
// and of the indexer's choice (8 rows: 32 to 36 tokens); on Nano the edges and some between.
TEST_P(WalkInvariants, PrefillEqualsTokenByTokenAtEveryLength) {
  const int64_t n_max = kSanitized ? 140 : 300;
  const auto is_tested = [&](int64_t n) {
    if (tiny()) return !kSanitized || n % 5 == 0;
    const int64_t in_window = n % 128;
    return n < (kSanitized ? 5 : 10) || in_window < 4 || in_window > 125 || n % 61 == 0;
  };
  Runner one = runner(), all = runner();
  KvCache decoded = one.new_cache(n_max);
  for (int64_t n = 1; n <= n_max; ++n) {
    const std::vector<float> want = one.decode(decoded, prompt(n).back());
    if (!is_tested(n)) continue;
    KvCache cache = all.new_cache(n);
    const std::vector<float> got = all.prefill(cache, prompt(n), 1);
    ASSERT_TRUE(same_bits(got, want))
        << "logits after " << n << " tokens: " << compare_logits(got, want).to_string();
    ASSERT_TRUE(same_bits(state(cache), state(decoded))) << "state at " << n;
  }
}

// On both sides of where the indexer begins to drop rows: 4 (topk + 1) tokens.
TEST_P(WalkInvariants, PrefillEqualsTokenByTokenAroundTopK) {
  const int64_t edge = 4 * (config().index_topk + 1);
  if (kSanitized && !tiny()) GTEST_SKIP() << "500 tokens one by one take minutes under sanitizers";
  Runner one = runner(), all = runner();
  KvCache decoded = one.new_cache(edge + 2);
  one.prefill(decoded, prompt(edge - 5), 0);
  for (int64_t n = edge - 4; n <= edge + 2; ++n) {
    const std::vector<float> want = one.decode(decoded, prompt(n).back());
    if (!tiny() && std::abs(n - edge) > 1) continue;
    KvCache cache = all.new_cache(n);
    EXPECT_TRUE(same_bits(all.prefill(cache, prompt(n), 1), want)) << n << " tokens";
    EXPECT_TRUE(same_bits(state(cache), state(decoded))) << "state at " << n;
  }
}

TEST_P(WalkInvariants, ChunksOfAnySizeGiveTheSameBits) {
  const int64_t n = kSanitized ? 140 : 540;  // beyond 4 (topk + 1) of both models
  std::vector<float> want, want_state;
  for (int64_t chunk : {4096, 1, 2, 3, 5, 64, 127, 128, 129, 512, 513}) {
    if (kSanitized && !tiny() && chunk < 5) continue;
    Runner chunked = runner(chunk);
    KvCache cache = chunked.new_cache(n);
    const std::vector<float> got = chunked.prefill(cache, prompt(n), 1);
    if (want.empty()) {
      want = got;
      want_state = state(cache);
    }
    EXPECT_TRUE(same_bits(got, want))
        << "chunks of " << chunk << ": " << compare_logits(got, want).to_string();
    EXPECT_TRUE(same_bits(state(cache), want_state)) << "state, chunks of " << chunk;
  }
}

// Beyond one chunk of the largest size (BC-22, BC-23): a prompt that needs several passes equals
// one that needs a single pass, whatever its length is around the border.
TEST_P(WalkInvariants, PromptsAroundALargeChunkGiveTheSameBits) {
  if (kSanitized || (!tiny() && GetParam().backend == BackendKind::kReference)) {
    GTEST_SKIP() << "thousands of tokens; covered by the other models and backends";
  }
  Runner whole = runner(5000), large = runner(4096), small = runner(513);
  for (int64_t n : {4229, 4096, 4097}) {
    if (n != 4229 && !tiny()) break;
    KvCache a = whole.new_cache(n), b = large.new_cache(n), c = small.new_cache(n);
    const std::vector<float> want = whole.prefill(a, prompt(n), 1);
    EXPECT_TRUE(same_bits(large.prefill(b, prompt(n), 1), want)) << n << " in chunks of 4096";
    EXPECT_TRUE(same_bits(state(b), state(a)));
    if (n != 4229 || !tiny()) continue;
    EXPECT_TRUE(same_bits(small.prefill(c, prompt(n), 1), want)) << n << " in chunks of 513";
    EXPECT_TRUE(same_bits(state(c), state(a)));
  }
}

TEST_P(WalkInvariants, ChunksFromAnyStartGiveTheSameBits) {
  const int64_t n = 300;
  std::vector<float> want, want_state;
  for (int64_t start : {0, 1, 2, 3, 5, 63, 126, 127, 130, 255, 257}) {
    if (kSanitized && start % 127 != 0) continue;
    if (!tiny() && (start == 2 || start == 5 || start == 63 || start == 255)) continue;
    for (int64_t chunk : {129, 128, 61}) {
      if (chunk != 129 && !tiny()) break;
      Runner chunked = runner(chunk);
      KvCache cache = chunked.new_cache(n);
      if (start > 0) chunked.prefill(cache, prompt(start), 0);
      const std::vector<float> got = chunked.prefill(cache, prompt(n).subspan(size_t(start)), 1);
      if (want.empty()) {
        want = got;
        want_state = state(cache);
      }
      EXPECT_TRUE(same_bits(got, want)) << "from " << start << " in chunks of " << chunk;
      EXPECT_TRUE(same_bits(state(cache), want_state)) << "from " << start << " by " << chunk;
    }
  }
}

// One, two and seven sessions of different lengths, prefill and decode rows mixed.
TEST_P(WalkInvariants, SessionsInOneStepEqualEachAlone) {
  const std::vector<std::pair<int64_t, int64_t>> all = {
      // (history, tokens of the step)
      {130, 1}, {1, 1}, {7, 9}, {127, 1}, {64, 67}, {0, 3}, {131, 1}};
  for (size_t n_sessions : {1, 2, 7}) {
    Runner alone = runner(), batched = runner();
    std::vector<std::vector<float>> want, want_state;
    std::vector<KvCache> caches;
    std::vector<std::vector<Token>> more;
    for (size_t i = 0; i < n_sessions; ++i) {
      const auto [history, n] = all[i];
      more.push_back(other(n, static_cast<uint32_t>(i)));
      KvCache cache = alone.new_cache(history + n);
      if (history > 0) alone.prefill(cache, prompt(history), 0);
      want.push_back(alone.prefill(cache, more[i], 1));
      want_state.push_back(state(cache));
      caches.push_back(batched.new_cache(history + n));
      if (history > 0) batched.prefill(caches[i], prompt(history), 0);
    }
    std::vector<StepSpan> spans;
    std::vector<int64_t> rows;
    int64_t row = 0;
    for (size_t i = 0; i < n_sessions; ++i) {
      spans.push_back({.cache = &caches[i],
                       .tokens = more[i],
                       .kind = more[i].size() == 1 ? SpanKind::kDecode : SpanKind::kPrefill});
      row += static_cast<int64_t>(more[i].size());
      rows.push_back(row - 1);
    }
    must(batched.forward().run({.spans = spans, .logit_rows = rows, .streams_in = {}}));
    const std::vector<float> got = to_host(batched.device(), batched.forward().logits());
    const size_t vocab = static_cast<size_t>(config().vocab_size);
    for (size_t i = 0; i < n_sessions; ++i) {
      EXPECT_TRUE(same_bits(std::span(got).subspan(i * vocab, vocab), want[i]))
          << "session " << i << " of " << n_sessions;
      EXPECT_TRUE(same_bits(state(caches[i]), want_state[i])) << "state of session " << i;
    }
  }
}

TEST_P(WalkInvariants, ThreadsDoNotChangeBits) {
  std::vector<float> want, want_state;
  for (int n_threads : {1, 2, 3, 7}) {
    Runner threaded = runner(512, n_threads);
    KvCache cache = threaded.new_cache(600);
    std::vector<float> got = threaded.prefill(cache, prompt(133), 1);
    for (Token token : other(3)) {
      const std::vector<float> more = threaded.decode(cache, token);
      got.insert(got.end(), more.begin(), more.end());
    }
    if (want.empty()) {
      want = got;
      want_state = state(cache);
    }
    EXPECT_TRUE(same_bits(got, want)) << n_threads << " threads";
    EXPECT_TRUE(same_bits(state(cache), want_state)) << "state, " << n_threads << " threads";
  }
}

// A pipeline stage is a range of layers that hands its streams on.
TEST_P(WalkInvariants, TwoLayerRangesEqualOneWalk) {
  Runner whole = runner();
  KvCache whole_cache = whole.new_cache(135);
  const std::vector<float> want = whole.prefill(whole_cache, prompt(135), 1);
  for (int cut = 1; cut < config().n_layers; cut += tiny() ? 1 : 3) {
    Runner first(GetParam().backend, config(), weights(),
                 {.precision = Precision::official(), .layer_end = cut});
    Runner second(GetParam().backend, config(), weights(),
                  {.precision = Precision::official(), .layer_begin = cut});
    KvCache first_cache = first.new_cache(135), second_cache = second.new_cache(135);
    first.prefill(first_cache, prompt(135), 0);
    const StepSpan span{&second_cache, prompt(135), SpanKind::kPrefill};
    const int64_t row = 134;
    must(second.forward().run(
        {.spans = {&span, 1}, .logit_rows = {&row, 1}, .streams_in = first.forward().streams()}));
    EXPECT_TRUE(same_bits(to_host(second.device(), second.forward().logits()), want))
        << "cut before layer " << cut;
  }
}

// Causality: other tokens from position q on leave the logits of every earlier position alone.
TEST_P(WalkInvariants, LaterTokensDoNotChangeEarlierLogits) {
  Runner r(GetParam().backend, config(), weights(),
           {.precision = Precision::official(), .max_logit_rows = 200});
  KvCache cache = r.new_cache(140);
  const std::vector<float> want = r.prefill(cache, prompt(140), 140);
  for (int64_t q : {1, 4, 35, 127, 128, 131}) {
    if (kSanitized && !tiny() && q < 127) continue;
    std::vector<Token> changed(prompt(140).begin(), prompt(140).end());
    std::ranges::copy(other(140 - q), changed.begin() + q);
    KvCache changed_cache = r.new_cache(140);
    const std::vector<float> got = r.prefill(changed_cache, changed, 140);
    const size_t shared = static_cast<size_t>(q * config().vocab_size);
    EXPECT_TRUE(same_bits(std::span(got).first(shared), std::span(want).first(shared))) << q;
    EXPECT_FALSE(same_bits(got, want)) << q;
  }
}

// A compressed row holds complete windows only: what stands at the end of an incomplete window
// reaches no stored row, and a token reaches exactly the rows that cover it. In the first layer
// with a compressor a row depends on the layers before, which see 128 tokens back, so rows before
// the token must be equal and the row that ends with it must differ.
TEST_P(WalkInvariants, TokensReachOnlyTheRowsThatMayCoverThem) {
  const int64_t n =
      263;  // 65 complete windows of 4 and two of 128, both followed by an incomplete one
  Runner r = runner();
  using Rows = std::vector<std::vector<float>>;
  // Of the first layer of each ratio.
  const auto rows_of = [&](std::span<const Token> tokens) {
    KvCache cache = r.new_cache(n);
    r.prefill(cache, tokens, 0);
    std::map<int, Rows> rows;
    for (int il = 0; il < config().n_layers; ++il) {
      const int ratio = config().compress_ratio(il);
      if (ratio == 0 || rows.contains(ratio)) continue;
      const PagedRows& paged = cache.layer(il).attn.rows;
      for (int64_t c = 0; c < n / ratio; ++c) {
        rows[ratio].push_back(row_values(paged, c));
      }
    }
    return rows;
  };
  std::map<int, Rows> want = rows_of(prompt(n));
  for (int64_t q : {0, 5, 127, 128, 200, 255, 256, 260, 262}) {
    if ((kSanitized || !tiny()) && q != 127 && q != 256 && q != 262) continue;
    std::vector<Token> changed(prompt(n).begin(), prompt(n).end());
    changed[static_cast<size_t>(q)] = (changed[static_cast<size_t>(q)] + 1) % 290 + 3;
    std::map<int, Rows> got = rows_of(changed);
    for (int64_t ratio : {4, 128}) {
      const Rows& a = want[static_cast<int>(ratio)];
      const Rows& b = got[static_cast<int>(ratio)];
      ASSERT_EQ(std::ssize(a), n / ratio);
      for (int64_t c = 0; c < q / ratio; ++c) {
        EXPECT_TRUE(same_bits(a[size_t(c)], b[size_t(c)])) << "token " << q << " row " << c;
      }
      if (q / ratio == n / ratio) continue;  // in the incomplete window
      EXPECT_FALSE(same_bits(a[size_t(q / ratio)], b[size_t(q / ratio)])) << q << " / " << ratio;
    }
  }
}

TEST_P(WalkInvariants, BadStepsAreRefusedAndChangeNothing) {
  Runner r = runner();
  KvCache cache = r.new_cache(8);
  r.prefill(cache, prompt(5), 1);
  const std::vector<float> before = state(cache);
  const Token vocab = static_cast<Token>(config().vocab_size);
  const std::vector<Token> bad = {vocab}, negative = {-1}, many(4, 7), none;
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
  EXPECT_TRUE(same_bits(state(cache), before));
}

INSTANTIATE_TEST_SUITE_P(Models, WalkInvariants, walk_cases(), walk_case_name);

}  // namespace
}  // namespace ds4::test
