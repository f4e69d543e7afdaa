// Hyper-connections: the golden numbers of the model description (appendix A.5), which also pin
// which index of the mixing matrix is the old stream, and invariants of the Sinkhorn steps.
#include "tests/backend/backend_test.h"

namespace ds4::test {
namespace {

constexpr HcParams kParams{.n_hc = 4, .sinkhorn_iters = 20, .hc_eps = 1e-6f, .rms_eps = 1e-6f};

struct Mix {
  Array fn, base, scale;
  HcWeights weights() const { return {fn, base, scale}; }
};

Mix random_mix(int64_t n_rows, int64_t width, int64_t n_scales, DType type = DType::kF32) {
  Mix mix{random_weights(type, {n_rows, width}, 1), random_floats({n_rows}, 2), floats({n_scales})};
  for (int64_t i = 0; i < n_scales; ++i) mix.scale.f()[i] = 0.7f + 0.4f * static_cast<float>(i);
  return mix;
}

class HyperConnectionTest : public OnEveryHost {};
DS4_ON_EVERY_HOST(HyperConnectionTest);

// One channel, streams (1, 2, -1, 0.5); fn is chosen so that fn rms(streams) is the m of A.5. A
// transposed mixing matrix gives other streams: the rows and columns of A.5 differ.
TEST_P(HyperConnectionTest, GivesTheGoldenNumbers) {
  Array streams = floats({1, 4, 1}), x = floats({1, 1}), mix = floats({1, 20}), y = floats({1, 1});
  const float values[] = {1, 2, -1, 0.5f};
  std::copy_n(values, 4, streams.f());
  const double rms = std::sqrt((1 + 4 + 1 + 0.25) / 4 + 1e-6);
  Mix w{floats({24, 4}), floats({24}), floats({3})};
  for (int i = 0; i < 24; ++i) {
    const double m = 0.1 * ((7 * i) % 11 - 5);
    // u.u with u = streams / rms; fn = m u / (u.u) gives fn.u = m.
    const double square = (1 + 4 + 1 + 0.25) / (rms * rms);
    for (int j = 0; j < 4; ++j)
      w.fn.f()[4 * i + j] = static_cast<float>(m * static_cast<double>(values[j]) / rms / square);
    w.base.f()[i] = static_cast<float>(0.05 * ((5 * i) % 7 - 3));
  }
  const float scales[] = {0.5f, 1.5f, 2.0f};
  std::copy_n(scales, 3, w.scale.f());

  host->hc_collapse(x, mix, streams, w.weights(), kParams);
  EXPECT_NEAR(x.f()[0], 1.294677f, 2e-6f);
  const float want_mix[] = {1.148885f, 0.802625f, 1.268271f, 0.925140f,   // post
                            0.170183f, 0.425525f, 0.234108f, 0.170183f,   // from stream 0
                            0.273771f, 0.075850f, 0.376607f, 0.273771f,   // 1
                            0.154979f, 0.387508f, 0.302534f, 0.154979f,   // 2
                            0.401066f, 0.111117f, 0.086751f, 0.401066f};  // 3
  for (int i = 0; i < 20; ++i) EXPECT_NEAR(mix.f()[i], want_mix[i], 2e-6f) << i;

  y.f()[0] = 3.0f;
  host->hc_expand(streams, y, mix);
  const float want[] = {4.209935f, 2.653149f, 4.532976f, 3.538701f};
  for (int k = 0; k < 4; ++k) EXPECT_NEAR(streams.f()[k], want[k], 5e-6f) << k;
}

TEST_P(HyperConnectionTest, ColumnsSumToOneAndAllWeightsStayInRange) {
  constexpr int64_t kRows = 40, kHidden = 64;
  const Array streams = random_floats({kRows, 4, kHidden}, 3, 5.0f);
  Array x = floats({kRows, kHidden}), mix = floats({kRows, 20});
  Mix w = random_mix(24, 4 * kHidden, 3);
  for (int64_t i = 0; i < w.fn.n(); ++i) w.fn.f()[i] *= 8.0f;  // logits of several units
  host->hc_collapse(x, mix, streams, w.weights(), kParams);
  for (int64_t n = 0; n < kRows; ++n) {
    const float* post = mix.f() + n * 20;
    for (int j = 0; j < 4; ++j) {
      EXPECT_GE(post[j], 0.0f);
      EXPECT_LE(post[j], 2.0f);
      float sum = 0;
      for (int i = 0; i < 4; ++i) {
        EXPECT_GT(post[4 + 4 * i + j], 0.0f);
        sum += post[4 + 4 * i + j];
      }
      EXPECT_NEAR(sum, 1.0f, 2e-6f);
    }
  }
}

// Equal streams v stay v but for post_k y: each new stream is a convex mixture of the old ones.
TEST_P(HyperConnectionTest, EqualStreamsStayEqualButForTheOutput) {
  constexpr int64_t kHidden = 70;
  const Array v = random_floats({1, kHidden}, 4), y = random_floats({1, kHidden}, 5);
  Array streams = floats({1, 4, kHidden}), x = floats({1, kHidden}), mix = floats({1, 20});
  host->broadcast_streams(streams, v);
  host->hc_collapse(x, mix, streams, random_mix(24, 4 * kHidden, 3).weights(), kParams);
  host->hc_expand(streams, y, mix);
  for (int64_t k = 0; k < 4; ++k) {
    for (int64_t d = 0; d < kHidden; ++d) {
      EXPECT_NEAR(streams.f()[k * kHidden + d], mix.f()[k] * y.f()[d] + v.f()[d], 2e-5f);
    }
  }
}

// 5e-6: two f32 sums of 1024 products before the few operations of a row.
TEST_P(HyperConnectionTest, AgreesWithTheReferenceForEveryTypeOfMix) {
  constexpr int64_t kHidden = 256;
  const HostBackend reference = make_host(Host::kReference);
  for (DType type : kPlainTypes) {
    for (int64_t rows : {1, 2, 7, 66}) {
      SCOPED_TRACE(testing::Message() << dtype_name(type) << " rows=" << rows);
      const Mix w = random_mix(24, 4 * kHidden, 3, type),
                head = random_mix(4, 4 * kHidden, 1, type);
      const Array streams = random_floats({rows, 4, kHidden}, 6),
                  y = random_floats({rows, kHidden}, 7);
      Array out[2][4];
      const HostBackend* hosts[] = {&host, &reference};
      for (int i = 0; i < 2; ++i) {
        Array x = floats({rows, kHidden}), mix = floats({rows, 20}),
              head_x = floats({rows, kHidden});
        Array s = streams;
        (*hosts[i])->hc_collapse(x, mix, s, w.weights(), kParams);
        (*hosts[i])->hc_expand(s, y, mix);
        (*hosts[i])->hc_head(head_x, s, head.weights(), kParams);
        out[i][0] = x;
        out[i][1] = mix;
        out[i][2] = s;
        out[i][3] = head_x;
      }
      for (int t = 0; t < 4; ++t) EXPECT_LE(relative_l2(out[0][t], out[1][t]), 5e-6) << t;
    }
  }
}

TEST_P(HyperConnectionTest, HeadIsTheGatedSumOfTheStreams) {
  constexpr int64_t kHidden = 48;
  const Array streams = random_floats({3, 4, kHidden}, 8);
  const Mix w = random_mix(4, 4 * kHidden, 1);
  Array x = floats({3, kHidden}), want = floats({3, kHidden});
  host->hc_head(x, streams, w.weights(), kParams);
  for (int64_t n = 0; n < 3; ++n) {
    const float* s = streams.f() + n * 4 * kHidden;
    double square = 0;
    for (int64_t i = 0; i < 4 * kHidden; ++i) square += std::pow(static_cast<double>(s[i]), 2);
    const double rms = 1 / std::sqrt(square / (4 * kHidden) + 1e-6);
    for (int64_t j = 0; j < 4; ++j) {
      double m = 0;
      for (int64_t i = 0; i < 4 * kHidden; ++i) {
        m += static_cast<double>(w.fn.f()[j * 4 * kHidden + i]) * static_cast<double>(s[i]) * rms;
      }
      const double logit =
          m * static_cast<double>(w.scale.f()[0]) + static_cast<double>(w.base.f()[j]);
      const double weight = 1 / (1 + std::exp(-logit)) + 1e-6;
      for (int64_t d = 0; d < kHidden; ++d) {
        want.f()[n * kHidden + d] +=
            static_cast<float>(weight * static_cast<double>(s[j * kHidden + d]));
      }
    }
  }
  EXPECT_LE(relative_l2(x, want), 2e-6);
}

}  // namespace
}  // namespace ds4::test
