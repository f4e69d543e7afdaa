// Routed experts: the fused, grouped ops against one projection per (row, slot), bit for bit, and
// that composition against f64.
#include "tests/backend/backend_test.h"

namespace ds4::test {
namespace {

struct Moe {
  int64_t n_experts, k, hidden, n_mid;
  Array gate, up, down;
};

Moe make_moe(DType type, int64_t n_experts, int64_t k) {
  constexpr int64_t kHidden = 256, kMid = 512;  // 512 = several tiles of 16 weight rows
  return {n_experts,
          k,
          kHidden,
          kMid,
          random_weights(type, {n_experts, kMid, kHidden}, 1),
          random_weights(type, {n_experts, kMid, kHidden}, 2),
          random_weights(type, {n_experts, kHidden, kMid}, 3)};
}

struct MoeResult {
  Array mid, out;
};

MoeResult run_moe(Ops& ops, const Moe& moe, const Array& x, const Array& ids,
                  const Array& weights) {
  const int64_t n = x.tensor().dim(0);
  MoeResult r{floats({n, moe.k, moe.n_mid}), floats({n, moe.hidden})};
  ops.experts_gate_up(r.mid, x, ids, weights, moe.gate, moe.up, 10.0f);
  ops.experts_down(r.out, r.mid, ids, moe.down);
  return r;
}

// The same by one linear per row and slot.
MoeResult by_slots(Ops& ops, const Moe& moe, const Array& x, const Array& ids,
                   const Array& weights) {
  const int64_t n_rows = x.tensor().dim(0);
  MoeResult r{floats({n_rows, moe.k, moe.n_mid}), floats({n_rows, moe.hidden})};
  for (int64_t n = 0; n < n_rows; ++n) {
    for (int64_t i = 0; i < moe.k; ++i) {
      const int64_t e = ids.i32()[n * moe.k + i];
      Array g = floats({1, moe.n_mid}), u = floats({1, moe.n_mid}), y = floats({1, moe.hidden});
      ops.linear(g, x.tensor().slice(n, 1), at(moe.gate, e));
      ops.linear(u, x.tensor().slice(n, 1), at(moe.up, e));
      ops.swiglu(g, g, u, 10.0f);
      float* mid = r.mid.f() + (n * moe.k + i) * moe.n_mid;
      for (int64_t f = 0; f < moe.n_mid; ++f) mid[f] = weights.f()[n * moe.k + i] * g.f()[f];
      Array mid_row = floats({1, moe.n_mid});
      std::memcpy(mid_row.f(), mid, static_cast<size_t>(moe.n_mid) * sizeof(float));
      ops.linear(y, mid_row, at(moe.down, e));
      for (int64_t d = 0; d < moe.hidden; ++d) r.out.f()[n * moe.hidden + d] += y.f()[d];
    }
  }
  return r;
}

// Ascending ids in each row, as the router writes them.
Array spread_ids(int64_t n_rows, int64_t k, int64_t n_experts) {
  Array ids = ints({n_rows, k});
  for (int64_t n = 0; n < n_rows; ++n) {
    for (int64_t i = 0; i < k; ++i) {
      ids.i32()[n * k + i] = static_cast<int32_t>((n * 3 + i * 5) % n_experts);
    }
    std::sort(ids.i32() + n * k, ids.i32() + (n + 1) * k);
  }
  return ids;
}

class ExpertsTest : public OnEveryHost {
 protected:
  void expect_slots(const Moe& moe, const Array& ids) {
    const int64_t n = ids.tensor().dim(0);
    const Array x = random_floats({n, moe.hidden}, 4), weights = random_floats({n, moe.k}, 5);
    const MoeResult got = run_moe(*host.ops, moe, x, ids, weights);
    const MoeResult want = by_slots(*host.ops, moe, x, ids, weights);
    EXPECT_TRUE(got.mid.same_bits(want.mid));
    EXPECT_TRUE(got.out.same_bits(want.out));
  }
};
DS4_ON_EVERY_HOST(ExpertsTest);

TEST_P(ExpertsTest, EqualOneProjectionPerSlotForEveryType) {
  for (DType type : kAllTypes) {
    SCOPED_TRACE(dtype_name(type));
    const Moe moe = make_moe(type, 5, 2);
    for (int64_t n : {1, 3}) expect_slots(moe, spread_ids(n, 2, 5));
  }
}

TEST_P(ExpertsTest, EqualOneProjectionPerSlotForOddChoices) {
  {
    SCOPED_TRACE("an expert chosen twice by one row");
    Array ids = ints({2, 3});
    const int32_t values[] = {1, 1, 3, 0, 2, 2};
    std::copy_n(values, 6, ids.i32());
    expect_slots(make_moe(DType::kQ8_0, 4, 3), ids);
  }
  {
    SCOPED_TRACE("a single expert");
    expect_slots(make_moe(DType::kMXFP4, 1, 1), spread_ids(3, 1, 1));
  }
  {
    SCOPED_TRACE("all experts");
    expect_slots(make_moe(DType::kQ4_K, 5, 5), spread_ids(2, 5, 5));
  }
  {
    SCOPED_TRACE("more rows of one expert than a run holds");
    Array ids = ints({70, 1});
    for (int i = 0; i < 70; ++i) ids.i32()[i] = 2;
    expect_slots(make_moe(DType::kQ8_0, 3, 1), ids);
  }
}

// 1e-5: two f32 projections and a SwiGLU; int8 activations twice: 2 %.
TEST_P(ExpertsTest, AgreeWithTheDefinitionInDoublePrecision) {
  const Moe moe = make_moe(DType::kQ8_0, 6, 2);
  const Array x = random_floats({4, moe.hidden}, 6, 3.0f), weights = random_floats({4, 2}, 7);
  const Array ids = spread_ids(4, 2, 6);
  const Array gate = decoded(moe.gate), up = decoded(moe.up), down = decoded(moe.down);
  const auto dot = [](const float* a, const float* b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    return sum;
  };
  Array want = floats({4, moe.hidden});
  for (int64_t n = 0; n < 4; ++n) {
    std::vector<double> sum(static_cast<size_t>(moe.hidden));
    for (int64_t i = 0; i < 2; ++i) {
      const int64_t e = ids.i32()[n * 2 + i];
      std::vector<float> mid;
      for (int64_t f = 0; f < moe.n_mid; ++f) {
        const int64_t row = (e * moe.n_mid + f) * moe.hidden;
        const double g = std::min(10.0, dot(gate.f() + row, x.f() + n * moe.hidden, moe.hidden));
        const double u =
            std::clamp(dot(up.f() + row, x.f() + n * moe.hidden, moe.hidden), -10.0, 10.0);
        mid.push_back(static_cast<float>(weights.f()[n * 2 + i] * g / (1 + std::exp(-g)) * u));
      }
      for (int64_t d = 0; d < moe.hidden; ++d) {
        sum[static_cast<size_t>(d)] +=
            dot(down.f() + (e * moe.hidden + d) * moe.n_mid, mid.data(), moe.n_mid);
      }
    }
    for (int64_t d = 0; d < moe.hidden; ++d) {
      want.f()[n * moe.hidden + d] = static_cast<float>(sum[static_cast<size_t>(d)]);
    }
  }
  const MoeResult got = run_moe(*host.ops, moe, x, ids, weights);
  EXPECT_LE(relative_l2(got.out, want), GetParam() == Host::kCpuInteger ? 2e-2 : 1e-5);
}

// Golden numbers of the model description, appendix A.6.
TEST_P(ExpertsTest, SwigluGivesTheGoldenNumbers) {
  Array g = floats({1, 3}), u = floats({1, 3}), h = floats({1, 3});
  const float gs[] = {12, -30, 1}, us[] = {11, -12, 2},
              want[] = {99.995460f, 2.8072869e-11f, 1.4621172f};
  std::copy_n(gs, 3, g.f());
  std::copy_n(us, 3, u.f());
  host->swiglu(h, g, u, 10.0f);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(h.f()[i], want[i], 1e-6f * want[i]);
}

}  // namespace
}  // namespace ds4::test
