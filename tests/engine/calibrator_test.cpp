// What an importance matrix is made of: sums against plain loops over the same rows, the routing of
// hash layers against the checkpoint's own table, and independence of chunks and threads.
#include "engine/calibrator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/support/nano.h"
#include "tests/support/runner.h"

namespace ds4::test {
namespace {

// One call of the op with random rows: every slot adds its squares to its expert and to no other.
TEST(ImportanceOpsTest, AddsTheSquaresOfWhatEachExpertIsFed) {
  const Model model = open_nano("exact");
  const ModelConfig& c = model.config();
  Backend backend = must(make_backend(BackendKind::kReference, {.n_threads = 1}));
  ImportanceOps ops(std::move(backend.ops), *backend.device, c, model.weights());
  constexpr int64_t kRows = 5;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(kRows * c.hidden)), weights(kRows * 4, 0.5f);
  std::generate(x.begin(), x.end(), [&] { return normal(random); });
  const std::vector<int32_t> ids{0, 1, 2, 3, 0, 4, 5, 6, 0, 1, 7, 8, 9, 10, 11, 12, 0, 2, 4, 15};
  std::vector<float> mid(ids.size() * static_cast<size_t>(c.expert_ffn));
  const auto view = [](auto& v, DType type, const Shape& shape) {
    return Tensor(
        reinterpret_cast<std::byte*>(const_cast<float*>(reinterpret_cast<const float*>(v.data()))),
        type, shape);
  };
  ops.experts_gate_up(view(mid, DType::kF32, {kRows, 4, c.expert_ffn}),
                      view(x, DType::kF32, {kRows, c.hidden}), view(ids, DType::kI32, {kRows, 4}),
                      view(weights, DType::kF32, {kRows, 4}), model.weights().layers[5].moe.gate,
                      model.weights().layers[5].moe.up, c.swiglu_limit);
  const ExpertStatistics& got = ops.statistics()[5];
  for (int32_t e = 0; e < 16; ++e) {
    SCOPED_TRACE(e);
    EXPECT_EQ(got.counts[static_cast<size_t>(e)], std::count(ids.begin(), ids.end(), e));
    for (const int64_t column : {int64_t{0}, int64_t{17}, c.hidden - 1}) {
      double in = 0, out = 0;
      for (size_t slot = 0; slot < ids.size(); ++slot) {
        if (ids[slot] != e) continue;
        const double a = x[slot / 4 * static_cast<size_t>(c.hidden) + static_cast<size_t>(column)];
        const double b =
            mid[slot * static_cast<size_t>(c.expert_ffn) + static_cast<size_t>(column)];
        in += a * a;
        out += b * b;
      }
      EXPECT_DOUBLE_EQ(got.gate_up[static_cast<size_t>(e * c.hidden + column)], in);
      EXPECT_DOUBLE_EQ(got.down[static_cast<size_t>(e * c.expert_ffn + column)], out);
    }
  }
  for (size_t other = 0; other < ops.statistics().size(); ++other) {
    const auto& counts = ops.statistics()[other].counts;
    EXPECT_EQ(std::count(counts.begin(), counts.end(), 0), other == 5 ? 2 : 16) << other;
  }
}

std::unique_ptr<Calibrator> calibrator(int64_t chunk, int n_threads, int64_t ctx = 512) {
  return must(Calibrator::create(
      open_nano("q8_0"), {.n_threads = n_threads, .ctx_tokens = ctx, .chunk_tokens = chunk}));
}

// Every token of every prompt meets n_experts_used experts in every layer; in hash layers the table
// of the checkpoint says which. The draft block sees each pair of neighbours.
TEST(CalibratorTest, CountsTheExpertsThatTokensMeet) {
  const auto c = calibrator(64, 2);
  const std::vector<Token> prompt = NanoReference::open().prompt("win200").ids;
  const auto first = std::span(prompt).first(130), second = std::span(prompt).last(50);
  EXPECT_EQ(must(c->add(first)), 130);
  EXPECT_EQ(must(c->add(second)), 50);
  const ModelConfig& config = c->model().config();
  ASSERT_EQ(c->statistics().size(), 9u);
  for (size_t il = 0; il < 9; ++il) {
    const auto& counts = c->statistics()[il].counts;
    const int64_t rows = il == 8 ? 129 + 49 : 180;
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}),
              rows * config.n_experts_used)
        << il;
  }
  for (size_t il = 0; il < 3; ++il) {
    std::vector<int64_t> expected(16);
    const ConstTensor table = c->model().weights().layers[il].moe.hash_ids;
    for (const auto part : {first, second}) {
      for (const Token token : part) {
        for (int64_t k = 0; k < 4; ++k)
          ++expected[static_cast<size_t>(table.row<int32_t>(token)[k])];
      }
    }
    EXPECT_EQ(c->statistics()[il].counts, expected) << il;
  }
}

TEST(CalibratorTest, SumsAreTheSameBitsWhateverTheChunkAndTheThreads) {
  const std::vector<Token> prompt = NanoReference::open().prompt("win200").ids;
  const auto a = calibrator(7, 1), b = calibrator(200, 3);
  must(a->add(std::span(prompt).first(150)));
  must(b->add(std::span(prompt).first(150)));
  for (size_t il = 0; il < 9; ++il) {
    EXPECT_EQ(a->statistics()[il].counts, b->statistics()[il].counts) << il;
    EXPECT_EQ(a->statistics()[il].gate_up, b->statistics()[il].gate_up) << il;
    EXPECT_EQ(a->statistics()[il].down, b->statistics()[il].down) << il;
  }
}

TEST(CalibratorTest, CutsWhatIsTooLongAndSaysWhatIsWrong) {
  const auto c = calibrator(16, 1, 40);
  const std::vector<Token> prompt = NanoReference::open().prompt("win200").ids;
  EXPECT_EQ(must(c->add(prompt)), 40);
  EXPECT_FALSE(c->add({}));
  EXPECT_FALSE(c->add(std::vector<Token>{5, 4096}));
  EXPECT_FALSE(c->add(std::vector<Token>{-1}));
  const auto stopped = c->add(prompt, [](int64_t done) { return done < 32; });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
  // The next prompt starts from nothing.
  EXPECT_EQ(must(c->add(std::span(prompt).first(3))), 3);
}

}  // namespace
}  // namespace ds4::test
