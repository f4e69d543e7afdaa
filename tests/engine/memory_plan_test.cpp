// The plan's arithmetic against figures worked out by hand (the shapes' tables of KV state in f32
// rows, Nano's tensors), the refusal, and a session's memory over a long decode.
#include "engine/memory_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>

#include "base/control_group.h"
#include "base/system_memory.h"
#include "engine/sampler.h"
#include "engine/session.h"
#include "tests/support/nano.h"
#include "tests/support/runner.h"

namespace ds4::test {
namespace {

MemoryPlan plan_of(const ModelConfig& config, int64_t ctx_tokens, MemoryPlanInput input = {}) {
  input.ctx_tokens = ctx_tokens;
  return must(MemoryPlan::make(config, input));
}

// Bytes of KV state in packed and in f32 rows, from the published table: GB at 32k, 128k and 1M
// tokens with 128 raw rows a layer; and the frontiers beside it. The ring here has 256 rows.
TEST(MemoryPlan, KvCacheOfFlashAndProIsThatOfTheTable) {
  struct Row {
    const ModelConfig& config;
    Precision precision;
    double row_bytes;
    double table_gb[3];
    double frontier_gb;
  };
  const int64_t contexts[] = {32768, 131072, 1048576};
  const Precision official = Precision::official(), hf32 = Precision::hf32();
  for (const Row& row : {Row{flash_config(), official, 584, {0.118, 0.464, 3.69}, 0.0122},
                         Row{pro_config(), official, 584, {0.169, 0.664, 5.28}, 0.0187},
                         Row{flash_config(), hf32, 2048, {0.462, 1.815, 14.44}, 0.0122},
                         Row{pro_config(), hf32, 2048, {0.661, 2.598, 20.67}, 0.0187}}) {
    const double second_half_of_ring =
        static_cast<double>(row.config.n_layers) * 128 * row.row_bytes * 1e-9;
    for (int i = 0; i < 3; ++i) {
      const MemoryPlan plan = plan_of(row.config, contexts[i], {.precision = row.precision});
      const double gb = static_cast<double>(plan.kv_cache) * 1e-9;
      const double want = row.table_gb[i] + row.frontier_gb + second_half_of_ring;
      EXPECT_NEAR(gb, want, i == 2 ? 0.006 : 0.0008) << row.config.name << " " << contexts[i];
    }
  }
}

// Nano, layer by layer: 3 of ratio 4 (rows 584 + 68 bytes, frontier 65536 + 16384), 3 of ratio
// 128 (rows 584, frontier 524288), 8 rings of 256 rows. 32768 positions fill whole pages.
TEST(MemoryPlan, KvCacheOfNanoByHand) {
  const int64_t ratio_4 = 3 * (8192 * (584 + 68) + 65536 + 16384);
  const int64_t ratio_128 = 3 * (256 * 584 + 524288);
  const int64_t want = ratio_4 + ratio_128 + 8 * 256 * 584;
  const MemoryPlan one = plan_of(nano_config(), 32768);
  EXPECT_GE(one.kv_cache, want);
  EXPECT_LE(one.kv_cache, want + want / 200) << "more than half a percent of padding";
  EXPECT_EQ(plan_of(nano_config(), 32768, {.n_sessions = 3}).kv_cache, 3 * one.kv_cache);
}

// 100 rows of a step and one row of logits, Nano's widths: ints and tables, then every f32 tensor.
TEST(MemoryPlan, WorkspaceAndScratchOfNanoByHand) {
  const MemoryPlan plan =
      plan_of(nano_config(), 1000,
              {.backend_options = {.n_threads = 2}, .prefill_chunk_tokens = 99, .max_sessions = 1});
  const int64_t floats = 64 + 64         // two rotary tables
                         + 4 * 256 + 20  // streams, mix
                         + 3 * 256       // x, out, shared_out
                         + 256 + 2048    // q rank, q
                         + 512 + 2048    // kv, heads
                         + nano_config().o_groups * nano_config().o_lora_rank + 2 * 1024  // comp
                         + 512 + 4             // index q and weights
                         + 16 + 4              // router logits, expert weights
                         + 4 * 256 + 2 * 256;  // mid, shared gate and up
  const int64_t ints = 1 + 2 + 128 + 4;        // tokens, positions (64 bits), selected, expert ids
  const int64_t head = 4 * 256 + 256 + 4096;
  const int64_t want = 4 * (100 * (floats + ints) + head);
  EXPECT_GE(plan.workspace, want);
  EXPECT_LE(plan.workspace, want + 28 * 64) << "tensors start at multiples of 64 bytes";

  // The widest int8 input is that of the grouped output projection: 2 groups of 1024, in groups of
  // 256 values with 128 bytes beside them. Then the mixes; for both threads an index query in 16
  // lanes, 4 x 128 + 256 candidates and a tile of 32 decoded rows; and the lists that sort 4 expert
  // slots a row.
  const int64_t thread = 64 + 16 * 129 * 4 + (4 * 128 + 256) * 8 + 32 * 512 * 4;
  const int64_t scratch =
      100 * 8 * (256 + 128) + 100 * 24 * 4 + 2 * thread + 4 * (2 * 16 + 1 + 100 * 4);
  EXPECT_EQ(plan.scratch, scratch);
  EXPECT_EQ(plan.sessions, 1000 * 4 + 4096 * 4);
}

TEST(MemoryPlan, TheTotalIsTheSumAndGrowsWithEverything) {
  const MemoryPlanInput input{.weight_bytes = 1000, .snapshot_bytes = 500};
  const MemoryPlan plan = plan_of(nano_config(), 4096, input);
  EXPECT_EQ(plan.total(), 1000 + 500 + plan.kv_cache + plan.workspace + plan.scratch +
                              plan.sessions + plan.program + plan.headroom);
  EXPECT_GT(plan_of(nano_config(), 8192, input).total(), plan.total());
  MemoryPlanInput more = input;
  more.prefill_chunk_tokens = 1024;
  EXPECT_GT(plan_of(nano_config(), 4096, more).total(), plan.total());
  more = input;
  more.weight_bytes = int64_t{1} << 40;
  // A terabyte has two gigabytes of page tables.
  EXPECT_GE(plan_of(nano_config(), 4096, more).headroom, int64_t{2} << 30);
}

TEST(MemoryPlan, ContextsOutsideTheModelAreRefused) {
  for (const int64_t ctx : {int64_t{0}, int64_t{-1}, int64_t{1048577}, INT64_MAX}) {
    const auto plan = MemoryPlan::make(flash_config(), {.ctx_tokens = ctx});
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().message,
              fmt::format("context: expected 1 .. 1048576 tokens, found {}", ctx));
  }
}

TEST(MemoryPlan, RefusalHasTheNumbersAndTheLargestContext) {
  const MemoryPlanInput input{.weight_bytes = int64_t{4} << 30, .ctx_tokens = 1048576};
  const MemoryPlan plan = must(MemoryPlan::make(flash_config(), input));
  const MemoryBudget budget{int64_t{6} << 30, "limit --mem-limit 6G"};
  const auto refused = check_memory(plan, budget, flash_config(), input);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kOutOfMemory);
  const int64_t ctx = largest_context(budget.bytes, flash_config(), input);
  const std::string& text = refused.error().message;
  const std::string want = fmt::format(
      "memory: expected at most 6.00 GiB (limit --mem-limit 6G), the plan needs {}; the largest "
      "context that fits is {} tokens (-c {})",
      plan.summary(), ctx, ctx);
  EXPECT_EQ(text, want);
  EXPECT_NE(text.find("weights 4.00 GiB, KV cache 3.45"), std::string::npos) << text;
  EXPECT_NE(text.find("at 1048576 tokens"), std::string::npos) << text;

  EXPECT_EQ(ctx % 1024, 0);
  EXPECT_TRUE(check_memory(plan_of(flash_config(), ctx, input), budget, flash_config(), input));
  EXPECT_FALSE(
      check_memory(plan_of(flash_config(), ctx + 1024, input), budget, flash_config(), input));
}

TEST(MemoryPlan, SaysWhenNoContextFits) {
  const MemoryPlanInput input{.weight_bytes = int64_t{4} << 30, .ctx_tokens = 100};
  const MemoryPlan plan = must(MemoryPlan::make(flash_config(), input));
  const auto refused = check_memory(plan, {1 << 20, "here"}, flash_config(), input);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("no context fits"), std::string::npos);
  EXPECT_EQ(largest_context(1 << 20, flash_config(), input), 0);
  EXPECT_EQ(largest_context(INT64_MAX, flash_config(), input), 1048576);
}

// Memory of a session does not grow with the tokens it decodes, but for the rows of its cache:
// anonymous memory of this process between token 300, when the rings have been round once, and
// token 900 of one answer.
TEST(MemoryPlan, DecodingTakesNoMemoryBeyondTheCache) {
#ifdef DS4_SANITIZED
  GTEST_SKIP() << "the sanitizer's own memory is in the figure";
#endif
  // Without huge pages, which would come in pieces of 2 MiB whatever is in them.
  ASSERT_EQ(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0);
  const auto engine =
      must(Engine::create(open_nano("q2"), {.prefill_chunk_tokens = 32, .max_sessions = 1}));
  Session s = must(Session::create(*engine, {.ctx_tokens = 1024}));
  const auto anonymous_bytes = [] {
    const auto status = read_text_file("/proc/self/status");
    return proc_field_bytes(status.value_or(""), "RssAnon").value_or(-1);
  };
  int64_t at_300 = 0;
  Token token = 0;
  for (int i = 0; i < 900; ++i) {
    must(s.decode(token));
    token = argmax(s.logits());
    if (i == 300) at_300 = anonymous_bytes();
  }
  ASSERT_GT(at_300, 0);
  // 600 tokens of KV rows are 3 x (584 + 68) / 4 + 3 x 584 / 128 bytes each; nine series may begin
  // another page.
  const int64_t rows = 600 * (3 * 163 + 3 * 5), pages = 9 * 4096;
  EXPECT_LE(anonymous_bytes() - at_300, rows + pages);
}

}  // namespace
}  // namespace ds4::test
