// One walk through every op the cpu backend writes: the same bits for any number of threads and for
// every instruction set with a fused multiply-add, and not one allocation once it is warm.
// clang-format off: simd_targets.h comes before Highway.
#include "base/simd_targets.h"

#include <hwy/targets.h>
// clang-format on

#include <fmt/format.h>

#include <algorithm>

#include "backend/backend.h"
#include "tests/backend/allocation_count.h"
#include "tests/backend/backend_test.h"
#include "tests/support/kv_rows.h"

namespace ds4::test {
namespace {

// Inputs and outputs of one step over ops of every kind. run() itself allocates nothing.
class Walk {
 public:
  Walk(int64_t n_rows, bool packs) : n_(n_rows), packs_(packs) {
    for (DType type : kAllTypes) {
      linear_.push_back(random_weights(type, {50, kHidden}, 1));
      grouped_.push_back(random_weights(type, {50, kHidden / 2}, 2));
      gate_.push_back(random_weights(type, {4, kFfn, kHidden}, 3));
      up_.push_back(random_weights(type, {4, kFfn, kHidden}, 4));
      down_.push_back(random_weights(type, {4, kHidden, kFfn}, 5));
    }
    x_ = random_floats({n_, kHidden}, 6);
    streams_in_ = random_floats({n_, 4, kHidden}, 7);
    for (int64_t n = 0; n < n_; ++n) {
      for (int64_t i = 0; i < 2; ++i) ids_.i32()[2 * n + i] = static_cast<int32_t>(n % 2 + 2 * i);
    }
    for (int64_t p = 0; p < 3; ++p) {
      pages_.push_back(compressed_.tensor().row_data(p * kPageRows));
      index_pages_.push_back(index_rows_.tensor().row_data(p * kPageRows));
    }
    span_ = {.first_row = 0, .n_rows = n_, .first_pos = 2000, .kv = {}};
    span_.kv.ring = ring_.tensor();
    span_.kv.attn.rows = {pages_.data(), kDim * 4};
    span_.kv.index.rows = {index_pages_.data(), 128 * 4};
    pack_rows();
    for (size_t t = 0; t < std::size(kAllTypes); ++t) {
      outs_.push_back(floats({n_, 50}));
      outs_.push_back(floats({n_, 50}));
      outs_.push_back(floats({n_, 2, kFfn}));
      outs_.push_back(floats({n_, kHidden}));
    }
    for (int i = 0; i < 2; ++i) {
      for (int k = 0; k < 2; ++k) outs_.push_back(floats({n_, kHeads, kDim}));
      outs_.push_back(ints({n_, kTopk}));
    }
    outs_.push_back(floats({n_, kHidden}));
    outs_.push_back(floats({n_, 20}));
    outs_.push_back(streams_in_);
    outs_.push_back(floats({n_, kHidden}));
  }

  void run(Ops& ops) {
    constexpr HcParams kHc{.n_hc = 4, .sinkhorn_iters = 20, .hc_eps = 1e-6f, .rms_eps = 1e-6f};
    auto out = outs_.begin();
    for (size_t t = 0; t < std::size(kAllTypes); ++t) {
      ops.linear(*out++, x_, linear_[t]);
      ops.grouped_linear(*out++, x_, grouped_[t], 2);
      const Tensor mid = *out++;
      ops.experts_gate_up(mid, x_, ids_, weights_, gate_[t], up_[t], 10.0f);
      ops.experts_down(*out++, mid, ids_, down_[t]);
    }
    // f32 rows, then packed ones; the reference backend keeps none of those.
    for (const KvSpan* span : {&span_, packs_ ? &packed_span_ : &span_}) {
      const std::span<const KvSpan> spans(span, 1);
      ops.attention(*out++, q_, kv_, sinks_, {}, spans, {.window = 128, .ratio = 128});
      const Tensor mixed = *out++, selected = *out++;
      ops.index_topk(selected, index_q_, index_weights_, 0.1f, spans);
      ops.attention(mixed, q_, kv_, sinks_, selected, spans, {.window = 128, .ratio = 4});
    }
    const Tensor collapsed = *out++, mix = *out++, streams = *out++, head = *out++;
    std::memcpy(streams.data(), streams_in_.f(), static_cast<size_t>(streams_in_.n_bytes()));
    ops.hc_collapse(collapsed, mix, streams, {hc_fn_, hc_base_, hc_scale_}, kHc);
    ops.hc_expand(streams, x_, mix);
    ops.hc_head(head, streams, {head_fn_, head_base_, head_scale_}, kHc);
  }

  const std::vector<Array>& outs() const { return outs_; }

 private:
  // The same KV state in packed rows.
  void pack_rows() {
    packed_span_ = span_;
    for (int64_t h = 0; h < n_ * kHeads; ++h) indexer_round_trip(index_q_.f() + h * 128);
    constexpr int64_t kKvBytes = kv_row_bytes(RowFormat::kPackedKv, kDim);
    constexpr int64_t kIndexBytes = kv_row_bytes(RowFormat::kPackedIndex, 128);
    packed_ring_.resize(256 * kKvBytes);
    packed_rows_.resize(3 * kPageRows * kKvBytes);
    packed_index_.resize(3 * kPageRows * kIndexBytes);
    packed_span_.kv.ring = RingRows(packed_ring_.data(), 256, kDim, RowFormat::kPackedKv);
    for (int64_t r = 0; r < 256; ++r) {
      store_values(packed_span_.kv.ring.row(r), RowFormat::kPackedKv, ring_.f() + r * kDim, kDim);
    }
    for (int64_t r = 0; r < 3 * kPageRows; ++r) {
      store_values(packed_rows_.data() + r * kKvBytes, RowFormat::kPackedKv,
                   compressed_.f() + r * kDim, kDim);
      store_values(packed_index_.data() + r * kIndexBytes, RowFormat::kPackedIndex,
                   index_rows_.f() + r * 128, 128);
    }
    for (int64_t p = 0; p < 3; ++p) {
      packed_pages_.push_back(packed_rows_.data() + p * kPageRows * kKvBytes);
      packed_index_pages_.push_back(packed_index_.data() + p * kPageRows * kIndexBytes);
    }
    packed_span_.kv.attn.rows = {packed_pages_.data(), kKvBytes, RowFormat::kPackedKv};
    packed_span_.kv.index.rows = {packed_index_pages_.data(), kIndexBytes, RowFormat::kPackedIndex};
  }

  static constexpr int64_t kHidden = 512, kFfn = 256, kHeads = 4, kDim = 512, kTopk = 100;
  const int64_t n_;
  const bool packs_;
  std::vector<Array> linear_, grouped_, gate_, up_, down_;  // one of each type
  Array x_, streams_in_;
  Array ids_ = ints({n_, 2}), weights_ = random_floats({n_, 2}, 8);
  Array compressed_ = random_floats({3 * kPageRows, kDim}, 9);
  Array index_rows_ = random_floats({3 * kPageRows, 128}, 10);
  Array ring_ = random_floats({256, kDim}, 11);
  Array q_ = random_floats({n_, kHeads, kDim}, 12), kv_ = random_floats({n_, kDim}, 13);
  Array sinks_ = random_floats({kHeads}, 14);
  Array index_q_ = random_floats({n_, kHeads, 128}, 15);
  Array index_weights_ = random_floats({n_, kHeads}, 16);
  Array hc_fn_ = random_weights(DType::kF16, {24, 4 * kHidden}, 17),
        hc_base_ = random_floats({24}, 18);
  Array hc_scale_ = random_floats({3}, 19);
  Array head_fn_ = random_weights(DType::kF32, {4, 4 * kHidden}, 20),
        head_base_ = random_floats({4}, 21);
  Array head_scale_ = random_floats({1}, 22);
  std::vector<std::byte*> pages_, index_pages_;
  std::vector<std::byte> packed_ring_, packed_rows_, packed_index_;
  std::vector<std::byte*> packed_pages_, packed_index_pages_;
  KvSpan span_, packed_span_;
  std::vector<Array> outs_;
};

void expect_same_bits(const std::vector<Array>& got, const std::vector<Array>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].same_bits(want[i])) << "output " << i;
}

class InvarianceTest : public OnEveryHost {
 protected:
  static bool packs() { return GetParam() != Host::kReference; }
};
DS4_ON_EVERY_HOST(InvarianceTest);

TEST_P(InvarianceTest, BitsDoNotDependOnTheNumberOfThreads) {
  for (int64_t n_rows : {1, 5, 67}) {
    Walk walk(n_rows, packs());
    walk.run(*make_host(GetParam(), 1).ops);
    const std::vector<Array> want = walk.outs();
    for (int n_threads : {2, 3, 7}) {
      SCOPED_TRACE(testing::Message() << n_rows << " rows, " << n_threads << " threads");
      walk.run(*make_host(GetParam(), n_threads).ops);
      expect_same_bits(walk.outs(), want);
    }
  }
}

// Highway's own targets stand for machines without the newer instructions.
class InstructionSets : public InvarianceTest {
 protected:
  ~InstructionSets() override { hwy::SetSupportedTargetsForTest(0); }

  // What the walk gives on `target`; empty when this machine or this build lacks it.
  std::vector<Array> outs_on(int64_t target) {
    if ((hwy::SupportedTargets() & HWY_TARGETS & target) == 0) return {};
    hwy::SetSupportedTargetsForTest(target);
    Walk walk(6, packs());
    walk.run(*make_host(GetParam(), 2).ops);
    hwy::SetSupportedTargetsForTest(0);
    return walk.outs();
  }
};
INSTANTIATE_TEST_SUITE_P(, InstructionSets, testing::Values(Host::kCpuFloat, Host::kCpuInteger),
                         [](const auto& param_info) { return host_name(param_info.param); });

// Rows that were rounded to what a packed one holds give the same bits in both forms.
TEST_P(InstructionSets, PackedRowsGiveTheBitsOfF32Rows) {
  const int64_t all = hwy::SupportedTargets() & HWY_TARGETS;
  for (int64_t left = all; left != 0; left &= left - 1) {
    SCOPED_TRACE(hwy::TargetName(left & -left));
    const std::vector<Array> outs = outs_on(left & -left);
    const size_t first = 4 * std::size(kAllTypes);
    for (size_t i = first; i < first + 3; ++i) {
      EXPECT_TRUE(outs[i].same_bits(outs[i + 3])) << "output " << i;
    }
  }
}

#if HWY_ARCH_X86
TEST_P(InstructionSets, Avx2AndAvx512GiveTheSameBits) {
  const std::vector<Array> want = outs_on(HWY_AVX2);
  if (want.empty()) GTEST_SKIP() << "this processor has no AVX2, and so nothing to compare";
  for (int64_t target : {int64_t{HWY_AVX3}, int64_t{HWY_AVX3_DL}}) {
    const std::vector<Array> got = outs_on(target);
    SCOPED_TRACE(hwy::TargetName(target));
    if (!got.empty()) expect_same_bits(got, want);
  }
}

// Without a fused multiply-add the last bits of f32 sums differ, and nothing else.
TEST_P(InstructionSets, SseDiffersInLastBitsOnly) {
  const std::vector<Array> want = outs_on(HWY_SSE2), other = outs_on(HWY_SSE4);
  if (!other.empty()) expect_same_bits(other, want);
  Walk walk(6, packs());
  walk.run(*make_host(GetParam(), 2).ops);
  for (size_t i = 0; i < want.size(); ++i) {
    if (want[i].tensor().dtype() == DType::kF32) {
      EXPECT_LE(relative_l2(walk.outs()[i], want[i]), 1e-5) << "output " << i;
    }
  }
}

// A processor without AVX2 computes, and whoever runs it is told what it computes with and that it
// is slow, in one line. Nobody else is told anything.
TEST_P(InstructionSets, AMachineWithoutAvx2SaysSo) {
  const auto made_on = [](int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    testing::internal::CaptureStderr();
    const Result<Backend> backend = make_backend(BackendKind::kCpu, {.n_threads = 1});
    EXPECT_TRUE(backend);
    return std::pair(std::string(backend->device->description()),
                     testing::internal::GetCapturedStderr());
  };
  for (const auto& [target, name] : {std::pair(HWY_SSE2, "SSE2"), std::pair(HWY_SSE4, "SSE4")}) {
    if ((target & HWY_TARGETS) == 0) continue;  // one of the two is always there
    const auto [description, said] = made_on(target);
    EXPECT_EQ(description, fmt::format("cpu, {}, 1 threads", name));
    EXPECT_NE(said.find(fmt::format("no AVX2, so {} is used", name)), std::string::npos) << said;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  }
  const auto [description, said] = made_on(HWY_AVX2);
  EXPECT_EQ(description, "cpu, AVX2, 1 threads");
  EXPECT_EQ(said, "");
}
#endif

// A smaller step fits what a larger one has left, and a repeated one allocates nothing.
TEST_P(InvarianceTest, AWarmStepAllocatesNothing) {
  const HostBackend host_7 = make_host(GetParam(), 3);
  Walk large(40, packs()), small(1, packs());
  large.run(*host_7.ops);
  const int64_t before = allocation_count();
  large.run(*host_7.ops);
  small.run(*host_7.ops);
  EXPECT_EQ(allocation_count() - before, 0);
}

}  // namespace
}  // namespace ds4::test
