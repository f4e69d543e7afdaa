// Kernels of the ops that work on one row (kernels/row_ops.cpp), on every instruction set that this
// machine has. Oracles: the scalar forms of the reference backend, and double precision.
// clang-format off: simd_targets.h comes before Highway.
#include "base/simd_targets.h"

#include <hwy/targets.h>
// clang-format on

#include <cmath>

#include "backend/cpu/kernels/kernels.h"
#include "backend/host/hc_mix.h"
#include "backend/host/host_ops.h"
#include "model/rope.h"
#include "tests/backend/backend_test.h"

namespace ds4::test {
namespace {

using cpu::Kernels;

class RowOps : public testing::Test {
 protected:
  ~RowOps() override { hwy::SetSupportedTargetsForTest(0); }
  template <typename Check>
  void on_every_target(Check check) {
    const int64_t all = hwy::SupportedTargets() & HWY_TARGETS;
    for (int64_t left = all; left != 0; left &= left - 1) {
      hwy::SetSupportedTargetsForTest(left & -left);
      SCOPED_TRACE(hwy::TargetName(left & -left));
      check(cpu::select_kernels(), left & -left);
      hwy::SetSupportedTargetsForTest(0);
    }
  }
  // Holds results of the targets that promise equal bits against the first of them.
  void expect_equal_bits(int64_t target, const Array& got) {
#if HWY_ARCH_X86
    if (target == HWY_SSE2 || target == HWY_SSE4) return;
#endif
    if (first_.n() == 0) first_ = got;
    EXPECT_TRUE(got.same_bits(first_));
    static_cast<void>(target);
  }

 private:
  Array first_ = floats({0});
};

constexpr int64_t kWidths[] = {1, 7, 16, 33, 256, 1000, 4096};

// Squares are exact in f64 and their order is fixed, so even the last bit is the same everywhere.
TEST_F(RowOps, InverseRmsIsThatOfDoublePrecisionAndOneOnEveryTarget) {
  for (int64_t n : kWidths) {
    const Array x = random_floats({n}, static_cast<uint32_t>(n));
    const float want = inverse_rms(x.f(), n, 1e-6f);
    float first = 0;
    on_every_target([&](const Kernels& kernels, int64_t) {
      const float got = kernels.inverse_rms(x.f(), n, 1e-6f);
      EXPECT_NEAR(got, want, 1.2e-7f * want) << n;
      if (first == 0) first = got;
      EXPECT_EQ(got, first) << n;
    });
  }
}

TEST_F(RowOps, NormsEveryWidthInPlaceAndOnlyThat) {
  for (int64_t n : kWidths) {
    const Array x = random_floats({n}, 1), weight = random_floats({n}, 2);
    on_every_target([&](const Kernels& kernels, int64_t) {
      const float scale = kernels.inverse_rms(x.f(), n, 1e-6f);
      for (const float* w : {static_cast<const float*>(nullptr), weight.f()}) {
        std::vector<float> row(x.f(), x.f() + n);
        row.push_back(17.0f);
        kernels.rms_norm(row.data(), row.data(), w, n, 1e-6f);
        for (int64_t i = 0; i < n; ++i) {
          const float normed = x.f()[i] * scale;
          ASSERT_EQ(row[static_cast<size_t>(i)], w == nullptr ? normed : w[i] * normed);
        }
        EXPECT_EQ(row.back(), 17.0f);
      }
    });
  }
}

TEST_F(RowOps, RotationsAreTheScalarOnesBitForBit) {
  for (int64_t n_pairs : {1, 3, 32, 45}) {
    const Array x = random_floats({2 * n_pairs}, 3), table = random_floats({2 * n_pairs}, 4);
    for (bool inverse : {false, true}) {
      Array want = x;
      rotate_tail(want.f(), 2 * n_pairs, table.f(), n_pairs, inverse);
      on_every_target([&](const Kernels& kernels, int64_t) {
        Array got = x;
        kernels.rotate(got.f(), table.f(), n_pairs, inverse);
        EXPECT_TRUE(got.same_bits(want)) << n_pairs << " pairs";
      });
    }
  }
}

// From where a score is almost nothing to where it is the logit's root; with the two special ends.
TEST_F(RowOps, RouterScoresAreWithinAFewUlp) {
  constexpr int64_t n = 24001;
  Array logits = floats({n});
  for (int64_t i = 0; i < n; ++i) logits.f()[i] = static_cast<float>(i - 12000) / 150.0f;
  on_every_target([&](const Kernels& kernels, int64_t target) {
    Array scores = floats({n});
    kernels.router_scores(scores.f(), logits.f(), n);
    for (int64_t i = 0; i < n; ++i) {
      const double want = std::sqrt(std::log1p(std::exp(static_cast<double>(logits.f()[i]))));
      ASSERT_NEAR(scores.f()[i], want, 3e-7 * want) << logits.f()[i];
    }
    expect_equal_bits(target, scores);
    const float odd[3] = {INFINITY, -INFINITY, NAN};
    float got[3];
    kernels.router_scores(got, odd, 3);
    EXPECT_EQ(got[0], INFINITY);
    EXPECT_EQ(got[1], 0.0f);
    EXPECT_TRUE(std::isnan(got[2]));
  });
}

// Mixes as large as any: rows of the matrix that are almost one entry each.
TEST_F(RowOps, HyperConnectionWeightsAreTheScalarOnes) {
  constexpr HcParams kParams{.n_hc = 4, .sinkhorn_iters = 20, .hc_eps = 1e-6f, .rms_eps = 1e-6f};
  for (float sigma : {0.1f, 1.0f, 10.0f}) {
    const Array m = random_floats({24}, 5, sigma), base = random_floats({24}, 6);
    const Array scale = random_floats({3}, 7);
    const HcWeights weights{m, base, scale};
    Array scaled = m;
    for (int64_t i = 0; i < 24; ++i) scaled.f()[i] *= 0.7f;
    Array want = floats({24});
    split_mixes(scaled.f(), weights, kParams, want.f(), want.f() + 4);
    on_every_target([&](const Kernels& kernels, int64_t) {
      Array got = floats({24});
      kernels.split_mixes_4(got.f(), got.f() + 4,
                            {.mixes = m.f(),
                             .inverse_rms = 0.7f,
                             .base = base.f(),
                             .scale = scale.f(),
                             .sinkhorn_iters = 20,
                             .eps = 1e-6f});
      EXPECT_LE(relative_l2(got, want), 1e-6) << sigma;
    });
  }
}

// Pools of one entry, of a window and of the first window, whose missing half scores -inf.
TEST_F(RowOps, PoolingIsTheSoftmaxMeanOfEachChannel) {
  constexpr int64_t h = 77;
  const Array kv = random_floats({128, h}, 8), gate = random_floats({128, h}, 9, 3.0f);
  const Array empty = [&] {
    Array out = floats({h});
    std::fill_n(out.f(), h, -INFINITY);
    return out;
  }();
  for (DType type : {DType::kF32, DType::kF16}) {
    const Array bias = encoded(type, random_floats({128, h}, 10)), plain = decoded(bias);
    for (int n : {1, 8, 128}) {
      cpu::PoolArgs args;
      args.n = n;
      for (int i = 0; i < n; ++i) {
        args.kv[i] = kv.tensor().row<float>(i);
        args.gate[i] = n == 8 && i < 4 ? empty.f() : gate.tensor().row<float>(i);
        args.bias[i] = bias.tensor().row_data(i);
      }
      Array want = floats({h});
      for (int64_t c = 0; c < h; ++c) {
        double sum = 0, value = 0;
        for (int i = 0; i < n; ++i) {
          const double score = static_cast<double>(args.gate[i][c]) +
                               static_cast<double>(plain.tensor().row<float>(i)[c]);
          sum += std::exp(score);
          value += std::exp(score) * static_cast<double>(args.kv[i][c]);
        }
        want.f()[c] = static_cast<float>(value / sum);
      }
      on_every_target([&](const Kernels& kernels, int64_t) {
        Array got = floats({h});
        (type == DType::kF16 ? kernels.pool_f16 : kernels.pool_f32)(got.f(), args, h);
        EXPECT_LE(relative_l2(got, want), 1e-6) << n << " entries";
      });
    }
  }
}

// The whole compressor against the procedure that defines it, over cuts that leave windows open:
// the same frontiers bit for bit, and rows that differ by exp()'s rounding.
TEST(CompressorOps, LeaveTheFrontierOfTheTokenByTokenProcedure) {
  constexpr int64_t h = 128;
  for (int ratio : {4, 128}) {
    const int64_t w = ratio == 4 ? 2 * h : h;
    const Array ape = random_weights(DType::kF16, {ratio, w}, 11), norm = random_floats({h}, 12);
    const std::vector<float> freqs = rope_frequencies(ModelConfig{}, true);
    Array rows[2], kv[2], score[2];
    const HostBackend hosts[2] = {make_host(Host::kReference), make_host(Host::kCpuInteger)};
    for (int b = 0; b < 2; ++b) {
      rows[b] = floats({256, h});
      kv[b] = floats({ratio == 4 ? 8 : ratio, w});
      score[b] = floats({ratio == 4 ? 8 : ratio, w});
      std::fill_n(score[b].f(), score[b].n(), -INFINITY);
    }
    int64_t pos = 0;
    for (int64_t n : {1, 2, 6, 5, 1, 1, 130, 1, 120, 300, 3}) {
      const Array x = random_floats({n, w}, static_cast<uint32_t>(pos + 1));
      const Array gate = random_floats({n, w}, static_cast<uint32_t>(pos + 2));
      for (int b = 0; b < 2; ++b) {
        std::byte* const page = rows[b].data();
        KvSpan span{.first_row = 0, .n_rows = n, .first_pos = pos, .kv = {}};
        span.kv.attn.rows = {&page, h * 4};
        span.kv.attn.frontier_kv = kv[b];
        span.kv.attn.frontier_score = score[b];
        hosts[b]->compress({&span, 1}, x, gate, ape, norm, freqs,
                           {.ratio = ratio, .rms_eps = 1e-6f, .precision = Precision::hf32()});
      }
      pos += n;
      SCOPED_TRACE(testing::Message() << "ratio " << ratio << ", " << pos << " tokens");
      EXPECT_TRUE(kv[1].same_bits(kv[0]));
      EXPECT_TRUE(score[1].same_bits(score[0]));
      EXPECT_LE(relative_l2(rows[1], rows[0]), 1e-6);
    }
  }
}

}  // namespace
}  // namespace ds4::test
