// The cpu backend as a whole. hf32 on the lossless file against independent float32 logits; the
// official profile, where block-quantized weights meet int8 activations, against the reference
// backend on the same file. What int8 activations cost was measured (docs/testing.md); the
// thresholds are about twice that, so a kernel that loses more is noticed.
//
// In a handful of the rows two experts all but tie, and any last bit anywhere decides between them:
// which rows those are, and so the worst KL, changes with every reordering of a sum. So the mean
// without the worst few rows is held as well, more tightly, to three times the figure.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/nano.h"
#include "tests/support/runner.h"

namespace ds4::test {
namespace {

#ifdef DS4_EMULATED
constexpr size_t kTokensMax = 129;
constexpr size_t kReferenceTokensMax = 129;
#elif defined(DS4_SANITIZED)
constexpr size_t kTokensMax = 640;
constexpr size_t kReferenceTokensMax = 129;
#else
constexpr size_t kTokensMax = 6000;
// The reference backend is slow, so what is compared with it stops here (pruning included).
constexpr size_t kReferenceTokensMax = 640;
#endif

TEST(CpuQuality, Hf32EqualsFloat32TransformersOnEveryPrompt) {
  const Model model = open_nano("exact");
  const NanoReference reference = NanoReference::open();
  Runner runner(BackendKind::kCpu, model.config(), model.weights(),
                {.precision = Precision::hf32()});
  LogitDiff worst;
  for (const ReferencePrompt& p : reference.prompts()) {
    if (p.ids.size() > kTokensMax) continue;
    // Sanitizers take a minute for each of these; one of them reaches where rows are dropped.
    if (kTokensMax == 640 && p.ids.size() > kReferenceTokensMax && p.ids.size() < 640) continue;
    KvCache cache = runner.new_cache(static_cast<int64_t>(p.ids.size()));
    const std::vector<float> got = runner.prefill(cache, p.ids, p.n_logit_rows);
    const LogitDiff diff = compare_rows(got, reference.values(p.name + ".logits"),
                                        static_cast<size_t>(model.config().vocab_size));
    EXPECT_LE(diff.relative_l2, 1e-3) << p.name;
    EXPECT_TRUE(diff.same_top1) << p.name;
    worst.take_worse(diff);
  }
  std::printf("cpu, hf32, exact, worst: %s\n", worst.to_string().c_str());
}

// How far integer activations move one recipe.
struct Bound {
  const char* recipe = "";
  double mean_kl = 0, worst_kl = 0;  // nats per row
  int top1_changes = 0;              // of all rows compared
  double common_kl = 0;              // mean without the kCoinTosses worst rows
};
constexpr size_t kCoinTosses = 6;  // of 1247 rows

void PrintTo(const Bound& bound, std::ostream* out) { *out << bound.recipe; }

class CpuOfficial : public testing::TestWithParam<Bound> {};

TEST_P(CpuOfficial, StaysNearTheReferenceBackend) {
  const Bound& bound = GetParam();
  const Model model = open_nano(bound.recipe);
  const NanoReference reference = NanoReference::open();
  const size_t vocab = static_cast<size_t>(model.config().vocab_size);
  // Every row of the prompts, not only the last ones: more chances for a flip to show.
  const Runner::Options options = {.precision = Precision::official(), .max_logit_rows = 512};
  Runner cpu(BackendKind::kCpu, model.config(), model.weights(), options);
  Runner exact(BackendKind::kReference, model.config(), model.weights(), options);
  std::vector<double> kls;
  int top1_changes = 0;
  for (const ReferencePrompt& p : reference.prompts()) {
    if (p.ids.size() > kReferenceTokensMax || p.name.starts_with("mid51")) continue;
    const int64_t n = static_cast<int64_t>(p.ids.size());
    KvCache cpu_cache = cpu.new_cache(n), exact_cache = exact.new_cache(n);
    const std::vector<float> got = cpu.prefill(cpu_cache, p.ids, n);
    const std::vector<float> want = exact.prefill(exact_cache, p.ids, n);
    for (size_t at = 0; at < want.size(); at += vocab) {
      const LogitDiff diff =
          compare_logits(std::span(got).subspan(at, vocab), std::span(want).subspan(at, vocab));
      kls.push_back(diff.kl);
      top1_changes += !diff.same_top1;
    }
  }
  std::sort(kls.begin(), kls.end());
  const auto mean = [&](size_t n) {
    return std::accumulate(kls.begin(), kls.begin() + static_cast<ptrdiff_t>(n), 0.0) /
           static_cast<double>(n);
  };
  const double mean_kl = mean(kls.size()), common_kl = mean(kls.size() - kCoinTosses);
  std::printf(
      "cpu, official, %s: %zu rows, KL mean %.3g, without the %zu worst %.3g, worst %.3g, "
      "top-1 changed %d\n",
      bound.recipe, kls.size(), mean_kl, kCoinTosses, common_kl, kls.back(), top1_changes);
  EXPECT_LE(mean_kl, bound.mean_kl);
  EXPECT_LE(kls.back(), bound.worst_kl);
  EXPECT_LE(common_kl, bound.common_kl);
  EXPECT_LE(top1_changes, bound.top1_changes);
}

// Mean and worst of q8_0 and the worst of q2 have the bounds of exact: theirs were 2e-4, 0.04 and
// 0.104 until a sum was reordered and other rows were the near ties (docs/testing.md).
INSTANTIATE_TEST_SUITE_P(Recipes, CpuOfficial,
                         testing::Values(Bound{"exact", 7e-4, 0.43, 8, 1e-4},
                                         Bound{"mxfp4", 4e-4, 0.31, 14, 1.8e-4},
                                         Bound{"q8_0", 7e-4, 0.43, 10, 1.8e-4},
                                         Bound{"q4", 3.6e-4, 0.045, 16, 3.5e-4},
                                         Bound{"q2", 1.3e-3, 0.43, 8, 1.8e-3}),
                         [](const auto& param) { return std::string(param.param.recipe); });

}  // namespace
}  // namespace ds4::test
