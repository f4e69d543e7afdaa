// The cpu backend's kernels for packed KV rows, softmax weights, index scores and the best rows,
// each on every instruction set that this machine has. Oracles: the scalar decoders, long double
// exp, the f32 form of the same scores, a full sort.
// clang-format off: simd_targets.h comes before Highway.
#include "base/simd_targets.h"

#include <hwy/targets.h>
// clang-format on

#include <algorithm>
#include <numeric>

#include "backend/cpu/index_query.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/top_rows.h"
#include "quant/packed_index.h"
#include "quant/packed_kv.h"
#include "tests/backend/backend_test.h"

namespace ds4::test {
namespace {

using cpu::Kernels;

// Runs `check` with the kernels of every target that is compiled here and that this machine has.
class KvKernels : public testing::Test {
 protected:
  ~KvKernels() override { hwy::SetSupportedTargetsForTest(0); }
  template <typename Check>
  void on_every_target(Check check) {
    const int64_t all = hwy::SupportedTargets() & HWY_TARGETS;
    for (int64_t left = all; left != 0; left &= left - 1) {
      hwy::SetSupportedTargetsForTest(left & -left);
      SCOPED_TRACE(hwy::TargetName(left & -left));
      check(cpu::select_kernels());
      hwy::SetSupportedTargetsForTest(0);
    }
  }
};

bool same_floats(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Every code under every scale byte, NaN's and those that need the slow way among them.
TEST_F(KvKernels, UnpacksKvRowsAsTheScalarDecoderDoes) {
  on_every_target([](const Kernels& kernels) {
    for (int64_t width : {128, 192, 512}) {
      std::vector<uint8_t> row(static_cast<size_t>(packed_kv_bytes(width)));
      std::vector<float> got(static_cast<size_t>(width)), want(got);
      for (int scale = 1; scale < 256; ++scale) {
        for (size_t i = 0; i < row.size(); ++i) {
          const auto code = static_cast<uint8_t>(i * 37 + static_cast<size_t>(scale));
          row[i] = (code & 0x7f) == 0x7f ? 0 : code;  // the codes of NaN do not occur
        }
        std::fill(row.begin() + packed_kv_scales(width), row.end(), static_cast<uint8_t>(scale));
        kernels.unpack_kv(got.data(), reinterpret_cast<const std::byte*>(row.data()), width);
        decode_packed_kv(row.data(), want.data(), width);
        ASSERT_TRUE(same_floats(got, want)) << width << ", scale " << scale;
      }
    }
  });
}

// Distance in units of the last place of the exact value.
double ulps(float got, long double want) {
  const int exponent = std::max(std::ilogb(static_cast<double>(want)), -126);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - want)) /
         std::ldexp(1.0, exponent - 23);
}

// A dense walk through the arguments of softmax weights, and a coarse one to the far end.
TEST_F(KvKernels, ExpIsWithinTwoUlp) {
  on_every_target([](const Kernels& kernels) {
    double worst = 0;
    const auto check = [&](float first, float last, int n) {
      std::vector<float> x(static_cast<size_t>(n)), y(x.size());
      for (int i = 0; i < n; ++i) {
        x[static_cast<size_t>(i)] =
            first + (last - first) * static_cast<float>(i) / static_cast<float>(n);
      }
      kernels.exp(y.data(), x.data(), n);
      for (size_t i = 0; i < x.size(); ++i) {
        worst = std::max(worst, ulps(y[i], std::exp(static_cast<long double>(x[i]))));
      }
    };
    check(-2.0f, 0.0f, 200003);
    check(-87.0f, -2.0f, 200003);
    check(0.0f, 88.0f, 50021);
    check(-1e-6f, 1e-6f, 1001);
    EXPECT_LE(worst, 2.0);
  });
}

TEST_F(KvKernels, ExpOfSpecialValues) {
  on_every_target([](const Kernels& kernels) {
    const std::vector<float> x = {0.0f, -0.0f, -INFINITY, -1e30f, -88.0f, -104.0f, NAN};
    std::vector<float> y(x.size());
    kernels.exp(y.data(), x.data(), std::ssize(x));
    EXPECT_EQ(y[0], 1.0f);
    EXPECT_EQ(y[1], 1.0f);
    for (size_t i = 2; i < 6; ++i) EXPECT_EQ(y[i], 0.0f) << x[i];  // -88: would be subnormal
    EXPECT_TRUE(std::isnan(y[6]));
  });
}

// Queries and rows as the profile rounds them, in both forms.
struct IndexCase {
  std::vector<float> q, weights, rows;
  std::vector<PackedIndexRow> packed;

  // Exponents of the rows and queries around `exponent`.
  IndexCase(int64_t heads, int64_t n_rows, int exponent, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    const auto fill = [&](std::vector<float>& values, int64_t n) {
      values.resize(static_cast<size_t>(n));
      for (float& v : values) v = normal(random);
    };
    fill(weights, heads);
    fill(q, heads * 128);
    fill(rows, n_rows * 128);
    packed.resize(static_cast<size_t>(n_rows));
    for (auto* values : {&q, &rows}) {
      for (size_t i = 0; i < values->size(); i += 128) {
        for (size_t k = 0; k < 128; ++k) {
          (*values)[i + k] = std::ldexp((*values)[i + k], exponent + static_cast<int>(i / 128 % 5));
        }
        indexer_round_trip(values->data() + i);
      }
    }
    pack();
  }
  void pack() {
    for (size_t r = 0; r < packed.size(); ++r) {
      encode_packed_index(rows.data() + r * 128, &packed[r]);
    }
  }
  std::vector<float> scores(const Kernels& kernels, RowFormat format) const {
    const int64_t heads = std::ssize(weights);
    std::vector<std::byte> memory(static_cast<size_t>(cpu::index_query_bytes(heads)) + 64);
    auto at = reinterpret_cast<uintptr_t>(memory.data());
    std::byte* aligned = memory.data() + (64 - at % 64) % 64;
    const cpu::IndexQuery query =
        cpu::make_index_query(aligned, q.data(), weights.data(), 0.25f, heads, format);
    std::vector<float> out(packed.size());
    const bool f32 = format == RowFormat::kF32;
    (f32 ? kernels.index_scores_f32 : kernels.index_scores_fp4)(
        {.query = &query,
         .rows = f32 ? reinterpret_cast<const std::byte*>(rows.data())
                     : reinterpret_cast<const std::byte*>(packed.data()),
         .n_rows = std::ssize(packed),
         .scores = out.data()});
    return out;
  }
};

// Sums over 32 FP4 products are exact, so integers and f32 agree bit for bit, whatever the scales;
// and the score is the formula's.
TEST_F(KvKernels, IndexScoresOfPackedRowsAreThoseOfF32Rows) {
  on_every_target([](const Kernels& kernels) {
    unsigned seed = 1;
    for (int64_t heads : {1, 4, 16, 17, 32, 48, 64}) {
      for (int64_t n_rows : {1, 3, 4, 7, 31, 32, 33, 70}) {
        for (int exponent : {0, -20, 25, -58, 57}) {
          const IndexCase c(heads, n_rows, exponent, ++seed);
          const std::vector<float> f32 = c.scores(kernels, RowFormat::kF32);
          ASSERT_TRUE(same_floats(c.scores(kernels, RowFormat::kPackedIndex), f32))
              << heads << " heads, " << n_rows << " rows, 2^" << exponent;
          if (exponent != 0) continue;
          for (size_t r = 0; r < c.packed.size(); ++r) {
            double want = 0, size = 0;
            for (size_t h = 0; h < c.weights.size(); ++h) {
              double dot = 0;
              for (size_t i = 0; i < 128; ++i) {
                dot += double{c.q[h * 128 + i]} * double{c.rows[r * 128 + i]};
              }
              want += 0.25 * double{c.weights[h]} * std::max(0.0, dot);
              size += std::fabs(0.25 * double{c.weights[h]} * dot);
            }
            ASSERT_NEAR(f32[r], want, 1e-6 * size);
          }
        }
      }
    }
  });
}

// A NaN in a row or in a head makes products NaN, which count as 0, in both forms alike.
TEST_F(KvKernels, NanProductsOfIndexScoresCountAsZero) {
  on_every_target([](const Kernels& kernels) {
    IndexCase c(20, 9, 0, 77);
    std::fill_n(c.rows.begin() + 3 * 128 + 32, 32, NAN);
    std::fill_n(c.q.begin() + 5 * 128 + 96, 32, NAN);
    c.pack();
    const std::vector<float> f32 = c.scores(kernels, RowFormat::kF32);
    EXPECT_TRUE(same_floats(c.scores(kernels, RowFormat::kPackedIndex), f32));
    EXPECT_EQ(f32[3], 0.0f);
    EXPECT_NE(f32[4], 0.0f);
  });
}

std::vector<int32_t> by_sorting(std::vector<float> scores, int64_t k) {
  std::vector<int32_t> rows(scores.size());
  std::iota(rows.begin(), rows.end(), 0);
  for (float& s : scores) s = std::isnan(s) ? -INFINITY : s;
  std::stable_sort(rows.begin(), rows.end(), [&](int32_t a, int32_t b) {
    return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
  });
  rows.resize(static_cast<size_t>(k));
  std::sort(rows.begin(), rows.end());
  return rows;
}

// The stream cut into parts, these into pieces of some size, then merged.
std::vector<int32_t> by_top_rows(const Kernels& kernels, const std::vector<float>& scores,
                                 int64_t k, int64_t n_parts, int64_t piece) {
  std::vector<std::vector<uint64_t>> memory;
  std::vector<int64_t> sizes;
  const int64_t n = std::ssize(scores);
  for (int64_t part = 0; part < n_parts; ++part) {
    memory.emplace_back(static_cast<size_t>(cpu::TopRows::capacity(k)));
    cpu::TopRows best(kernels, memory.back().data(), k);
    const int64_t end = n * (part + 1) / n_parts;
    for (int64_t r = n * part / n_parts; r < end; r += piece) {
      best.add(scores.data() + r, std::min(piece, end - r), r);
    }
    sizes.push_back(best.size());
  }
  cpu::TopRows best(kernels, memory[0].data(), k, sizes[0]);
  for (size_t part = 1; part < memory.size(); ++part) {
    cpu::TopRows other(kernels, memory[part].data(), k, sizes[part]);
    best.merge(other);
  }
  std::vector<int32_t> rows(static_cast<size_t>(k));
  best.finish(rows.data());
  return rows;
}

TEST_F(KvKernels, TopRowsAreThoseOfAFullSort) {
  on_every_target([](const Kernels& kernels) {
    std::mt19937 random(5);
    const auto check = [&](const std::vector<float>& scores, const char* what) {
      for (int64_t k : {1, 7, 128, 1000}) {
        const std::vector<int32_t> want = by_sorting(scores, k);
        for (int64_t n_parts : {1, 2, 7}) {
          for (int64_t piece : {256, 61}) {
            ASSERT_EQ(by_top_rows(kernels, scores, k, n_parts, piece), want)
                << what << ", k " << k << ", " << n_parts << " parts of pieces of " << piece;
          }
        }
      }
    };
    std::vector<float> scores(9001);
    const auto fill = [&](auto value) {
      for (size_t i = 0; i < scores.size(); ++i) scores[i] = value(i);
    };
    std::normal_distribution<float> normal;
    fill([&](size_t) { return normal(random); });
    check(scores, "random");
    fill([&](size_t i) { return static_cast<float>(i) - 4000.0f; });
    check(scores, "ascending");
    fill([&](size_t i) { return 4000.0f - static_cast<float>(i); });
    check(scores, "descending");
    fill([&](size_t) { return static_cast<float>(random() % 3); });
    check(scores, "ties");
    fill([&](size_t i) { return i % 2 == 0 ? 0.0f : -0.0f; });
    check(scores, "zeros of both signs");
    fill([&](size_t i) { return i % 3 == 0 ? NAN : i % 3 == 1 ? -INFINITY : -normal(random); });
    check(scores, "NaN and infinities");
    fill([&](size_t i) { return i < 8990 ? NAN : 1.0f; });
    check(scores, "mostly NaN");
  });
}

}  // namespace
}  // namespace ds4::test
