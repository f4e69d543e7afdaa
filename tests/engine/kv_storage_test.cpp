// Packed KV rows change nothing but memory: sessions that keep them have the logits, and the rows,
// of sessions that keep f32, bit for bit, on cpu in the official profile.
#include <gtest/gtest.h>

#include "tests/engine/walk_fixture.h"

namespace ds4::test {
namespace {

constexpr KvStorage kFloats{RowFormat::kF32, RowFormat::kF32};

class KvStorageTest : public WalkTest {
 protected:
  Runner runner_with(std::optional<KvStorage> storage, int64_t max_rows) const {
    return Runner(GetParam().backend, config(), weights(),
                  {.precision = Precision::official(), .max_rows = max_rows, .storage = storage});
  }
};

// Positions with every kind of layer at work: rows dropped by the indexer, rows of 128, the ring
// round many times; prefill in chunks, then decode.
TEST_P(KvStorageTest, PackedRowsGiveTheLogitsOfF32Rows) {
  const int64_t n = tiny() ? 2100 : kSanitized ? 640 : 1500;
  Runner floats = runner_with(kFloats, 512), packed = runner_with(std::nullopt, 512);
  ASSERT_EQ(packed.pool().storage().kv, RowFormat::kPackedKv);
  ASSERT_EQ(packed.pool().storage().index, RowFormat::kPackedIndex);
  ASSERT_EQ(floats.pool().storage().kv, RowFormat::kF32);
  KvCache a = floats.new_cache(n + 40), b = packed.new_cache(n + 40);
  const std::vector<float> want = floats.prefill(a, prompt(n), 16);
  ASSERT_TRUE(same_bits(packed.prefill(b, prompt(n), 16), want));
  for (const Token token : other(40)) {
    ASSERT_TRUE(same_bits(packed.decode(b, token), floats.decode(a, token))) << a.length();
  }
  EXPECT_TRUE(same_bits(state(b), state(a)));
  EXPECT_LT(b.capture_bytes(), a.capture_bytes());
}

// Short prompts of every length, decoded token by token.
TEST_P(KvStorageTest, DecodingFromTheFirstTokenToo) {
  const int64_t n = kSanitized ? 140 : 300;
  Runner floats = runner_with(kFloats, 8), packed = runner_with(std::nullopt, 8);
  KvCache a = floats.new_cache(n), b = packed.new_cache(n);
  for (const Token token : prompt(n)) {
    ASSERT_TRUE(same_bits(packed.decode(b, token), floats.decode(a, token))) << a.length();
  }
}

// Points, restored and forked, in the packed pool against the same steps in the other.
TEST_P(KvStorageTest, PointsAndForksGiveTheSameBitsToo) {
  Runner floats = runner_with(kFloats, 64), packed = runner_with(std::nullopt, 64);
  const auto run = [&](Runner& r) {
    must(r.pool().reserve(4096));
    KvCache trunk = r.new_cache(700), fork = r.new_cache(900);
    r.prefill(trunk, prompt(333), 0);
    const KvPoint point = must(trunk.capture());
    r.prefill(trunk, other(70, 1), 0);
    must(fork.restore(point));
    std::vector<float> logits = r.prefill(fork, other(200, 2), 4);
    must(trunk.restore(point));
    const std::vector<float> back = r.prefill(trunk, other(71, 3), 4);
    logits.insert(logits.end(), back.begin(), back.end());
    for (const KvCache* cache : {&trunk, &fork}) {
      const std::vector<float> kv = state(*cache);
      logits.insert(logits.end(), kv.begin(), kv.end());
    }
    return logits;
  };
  EXPECT_TRUE(same_bits(run(packed), run(floats)));
}

INSTANTIATE_TEST_SUITE_P(Models, KvStorageTest,
                         testing::Values(WalkCase{BackendKind::kCpu, true},
                                         WalkCase{BackendKind::kCpu, false}),
                         walk_case_name);

}  // namespace
}  // namespace ds4::test
