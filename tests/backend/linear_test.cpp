// Projections: every weight type, row counts around the tiles of four and the runs of 64, widths
// around the vectors; integers bit for bit against the scalar dot products of the quant room.
#include "backend/cpu/kernels/kernels.h"
#include "quant/iq2_xxs.h"
#include "quant/mxfp4.h"
#include "quant/q2_k.h"
#include "quant/q4_k.h"
#include "quant/q8_0.h"
#include "tests/backend/backend_test.h"

namespace ds4::test {
namespace {

constexpr int64_t kRowCounts[] = {1, 2, 3, 7, 33, 65};

// w x in f64 over decoded weights.
Array plain_linear(const Array& x, const Array& w) {
  const Array weights = decoded(w);
  const ConstTensor xs = x.tensor(), ws = weights.tensor();
  Array out = floats({xs.dim(0), ws.dim(0)});
  for (int64_t n = 0; n < xs.dim(0); ++n) {
    for (int64_t o = 0; o < ws.dim(0); ++o) {
      double sum = 0;
      for (int64_t i = 0; i < ws.dim(1); ++i) {
        sum += static_cast<double>(xs.row<float>(n)[i]) * static_cast<double>(ws.row<float>(o)[i]);
      }
      out.tensor().row<float>(n)[o] = static_cast<float>(sum);
    }
  }
  return out;
}

Array run_linear(Ops& ops, const Array& x, const Array& w) {
  Array out = floats({x.tensor().dim(0), w.tensor().dim(0)});
  ops.linear(out, x, w);
  return out;
}

std::vector<int64_t> widths_of(DType type) {
  switch (dtype_info(type).block_elems) {
    case 256:
      return {256, 512, 1024};
    case 32:
      return {32, 64, 224, 256, 288, 512, 1024};
    default:
      return {1, 15, 16, 17, 100, 256, 1024};
  }
}

class LinearTest : public OnEveryHost {};
DS4_ON_EVERY_HOST(LinearTest);

// 2e-6 for f32 sums of up to 1024 products; int8 activations are good to about 1/127 of a block's
// peak, which for normal values is 0.5 % a product and not more in the sum.
TEST_P(LinearTest, AgreesWithTheDefinitionForEveryTypeAndShape) {
  for (DType type : kAllTypes) {
    const bool rounded = GetParam() == Host::kCpuInteger && dtype_info(type).block_elems > 1;
    for (int64_t width : widths_of(type)) {
      const Array w = random_weights(type, {19, width}, 1);
      for (int64_t n_rows : kRowCounts) {
        SCOPED_TRACE(testing::Message()
                     << dtype_name(type) << " width=" << width << " rows=" << n_rows);
        const Array x = random_floats({n_rows, width}, 2);
        EXPECT_LE(relative_l2(run_linear(*host.ops, x, w), plain_linear(x, w)),
                  rounded ? 1.5e-2 : 2e-6);
      }
    }
  }
}

TEST_P(LinearTest, ARowHasTheSameBitsAloneAndInABatch) {
  for (DType type : kAllTypes) {
    const Array w = random_weights(type, {19, 512}, 3);
    const Array x = random_floats({70, 512}, 4);
    const Array batch = run_linear(*host.ops, x, w);
    for (int64_t n : {0, 1, 2, 5, 63, 64, 69}) {
      Array row = floats({1, 19});
      host->linear(row, x.tensor().slice(n, 1), w);
      EXPECT_EQ(std::memcmp(row.f(), batch.tensor().row<float>(n), 19 * sizeof(float)), 0)
          << dtype_name(type) << " row " << n;
    }
  }
}

// The block-diagonal projection is one projection per group; widths of 96 do not fill a group of
// eight A8 blocks.
TEST_P(LinearTest, GroupedIsOneLinearPerGroup) {
  for (DType type : {DType::kF16, DType::kQ8_0, DType::kMXFP4}) {
    constexpr int64_t kGroups = 3, kWidth = 96, kOut = 10;
    const Array w = random_weights(type, {kGroups * kOut, kWidth}, 5);
    const Array x = random_floats({5, kGroups * kWidth}, 6);
    Array out = floats({5, kGroups * kOut});
    host->grouped_linear(out, x, w, kGroups);
    for (int64_t g = 0; g < kGroups; ++g) {
      Array part = floats({5, kWidth}), want = floats({5, kOut});
      for (int64_t n = 0; n < 5; ++n) {
        std::memcpy(part.tensor().row<float>(n), x.tensor().row<float>(n) + g * kWidth,
                    kWidth * sizeof(float));
      }
      host->linear(want, part, w.tensor().slice(g * kOut, kOut));
      for (int64_t n = 0; n < 5; ++n) {
        EXPECT_EQ(std::memcmp(out.tensor().row<float>(n) + g * kOut, want.tensor().row<float>(n),
                              kOut * sizeof(float)),
                  0)
            << dtype_name(type) << " group " << g << " row " << n;
      }
    }
  }
}

// --- the integer paths, bit for bit ------------------------------------------------------------

// The documented order: one fused multiply-add a block, ascending, of the integers of the scalar
// dot products (kernels/panel-inl.h).
float fold(float sum, float w_scale, float x_scale, int32_t integers) {
  return std::fma(w_scale * x_scale, static_cast<float>(integers), sum);
}

float add_block(float sum, const BlockQ8_0& w, const BlockA8& a) {
  return fold(sum, f16_to_f32(w.d), a.d, dot_sum(w, a));
}
float add_block(float sum, const BlockMxfp4& w, const BlockA8& a) {
  return fold(sum, e8m0_to_f32(w.e) * 0.5f, a.d, dot_sum(w, a));
}
float add_block(float sum, const BlockIq2Xxs& w, const BlockQ8K& a) {
  return fold(sum, 0.125f * f16_to_f32(w.d), a.d, dot_sum(w, iq2_xxs::kGrid.data(), a));
}
template <typename Affine>
float add_block(float sum, const Affine& w, const BlockQ8K& a) {
  sum = fold(sum, f16_to_f32(w.d), a.d, dot_sums(w, a).scaled);
  return fold(sum, -f16_to_f32(w.dmin), a.d, dot_sums(w, a).mins);
}

template <typename Block, typename Activation>
float scalar_row_dot(const void* w, const float* x, int64_t n) {
  constexpr int64_t kElems = std::is_same_v<Activation, BlockA8> ? kA8Elems : kQ8KElems;
  const auto* blocks = static_cast<const Block*>(w);
  float sum = 0;
  for (int64_t b = 0; b < n / kElems; ++b) {
    Activation a;
    encode_block(x + b * kElems, &a);
    sum = add_block(sum, blocks[b], a);
  }
  return sum;
}

float scalar_dot(DType type, const void* w, const float* x, int64_t n) {
  switch (type) {
    case DType::kQ8_0:
      return scalar_row_dot<BlockQ8_0, BlockA8>(w, x, n);
    case DType::kMXFP4:
      return scalar_row_dot<BlockMxfp4, BlockA8>(w, x, n);
    case DType::kQ4_K:
      return scalar_row_dot<BlockQ4K, BlockQ8K>(w, x, n);
    case DType::kQ2_K:
      return scalar_row_dot<BlockQ2K, BlockQ8K>(w, x, n);
    default:
      return scalar_row_dot<BlockIq2Xxs, BlockQ8K>(w, x, n);
  }
}

void expect_scalar_bits(DType type, const Array& x, const Array& w) {
  const HostBackend host = make_host(Host::kCpuInteger);
  const Array out = run_linear(*host.ops, x, w);
  const ConstTensor xs = x.tensor(), ws = w.tensor();
  for (int64_t n = 0; n < xs.dim(0); ++n) {
    for (int64_t o = 0; o < ws.dim(0); ++o) {
      const float want = scalar_dot(type, ws.row_data(o), xs.row<float>(n), ws.dim(1));
      const float got = out.tensor().row<float>(n)[o];
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(got)) << dtype_name(type) << " [" << n << ", " << o << "] " << got;
      } else {
        EXPECT_EQ(got, want) << dtype_name(type) << " [" << n << ", " << o << "]";
      }
    }
  }
}

TEST(IntegerLinearTest, EqualsTheScalarDotProductsBitForBit) {
  for (DType type : kBlockTypes) {
    for (int64_t width : widths_of(type)) {
      const Array w = random_weights(type, {9, width}, 7);
      for (int64_t n_rows : {1, 3, 5, 66}) {
        expect_scalar_bits(type, random_floats({n_rows, width}, 8), w);
      }
    }
  }
}

// Weights of random bytes hold every code, scale and sign, also -128 and levels an encoder never
// writes. The f16 and E8M0 scales are made finite, as a NaN would hide the integers.
TEST(IntegerLinearTest, EqualsTheScalarDotProductsForAnyBytes) {
  std::mt19937 gen(9);
  for (DType type : kBlockTypes) {
    Array w(type, {40, 768});
    for (int64_t i = 0; i < w.n_bytes(); ++i) w.data()[i] = static_cast<std::byte>(gen());
    const auto fix = [](uint16_t& half) { half = static_cast<uint16_t>(half & 0xbbffu); };
    for (int64_t o = 0; o < 40; ++o) {
      std::byte* row = w.tensor().row_data(o);
      for (int b = 0; b < 24 && type == DType::kQ8_0; ++b)
        fix(reinterpret_cast<BlockQ8_0*>(row)[b].d);
      for (int b = 0; b < 24 && type == DType::kMXFP4; ++b) {
        uint8_t& e = reinterpret_cast<BlockMxfp4*>(row)[b].e;
        e = static_cast<uint8_t>(64 + e / 2);
      }
      for (int b = 0; b < 3 && type == DType::kQ4_K; ++b) {
        fix(reinterpret_cast<BlockQ4K*>(row)[b].d);
        fix(reinterpret_cast<BlockQ4K*>(row)[b].dmin);
      }
      for (int b = 0; b < 3 && type == DType::kQ2_K; ++b) {
        fix(reinterpret_cast<BlockQ2K*>(row)[b].d);
        fix(reinterpret_cast<BlockQ2K*>(row)[b].dmin);
      }
      for (int b = 0; b < 3 && type == DType::kIQ2_XXS; ++b) {
        fix(reinterpret_cast<BlockIq2Xxs*>(row)[b].d);
      }
    }
    expect_scalar_bits(type, random_floats({5, 768}, 10), w);
  }
}

// Activations whose rounding is at its limits: subnormal peaks (codes of -128), zeros, huge values,
// and a NaN, which must come out as NaN.
TEST(IntegerLinearTest, EqualsTheScalarDotProductsForExtremeActivations) {
  Array x = random_floats({6, 256}, 11);
  for (int64_t i = 0; i < 256; ++i) {
    x.f()[i] = (i % 3 == 0 ? -1.0f : 1.0f) * static_cast<float>(i) * 0x1p-149f;
    x.f()[256 + i] = 0.0f;
    x.f()[512 + i] *= 1e30f;
    x.f()[1024 + i] *= 1e-37f;
  }
  x.f()[768 + 100] = NAN;
  for (DType type : kBlockTypes) expect_scalar_bits(type, x, random_weights(type, {5, 256}, 12));
}

// --- repacked copies ----------------------------------------------------------------------------

// Which form a processor gets depends on who made it; both are held against the rows in the file.
TEST(RepackTest, BothFormsOfTheKernelGiveTheSameBits) {
  constexpr int64_t kRows = 48, kCols = 512, kGroups = kCols / cpu::kActivationGroupElems;
  const cpu::Kernels kernels = cpu::select_kernels();
  const Array w = random_weights(DType::kQ8_0, {kRows, kCols}, 41);
  const int64_t stride = w.tensor().row_stride();
  std::vector<std::byte> memory(static_cast<size_t>(kRows * stride + 64));
  std::byte* const copy =
      memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  kernels.pack_q8_0(copy, w.tensor().row_data(0), kRows, kCols);
  for (int64_t n : {1, 3, 11}) {
    SCOPED_TRACE(n);
    const Array x = random_floats({n, kCols}, 42);
    std::vector<cpu::ActivationGroup> groups(static_cast<size_t>(n * kGroups));
    std::vector<const void*> rows;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t g = 0; g < kGroups; ++g) {
        kernels.round_a8(x.tensor().row<float>(i) + g * cpu::kActivationGroupElems, 8,
                         &groups[static_cast<size_t>(i * kGroups + g)]);
      }
      rows.push_back(&groups[static_cast<size_t>(i * kGroups)]);
    }
    const auto products = [&](cpu::DotFn dot, const std::byte* weights) {
      Array out = floats({n, kRows});
      dot({.w = weights,
           .w_stride = stride,
           .n_w = kRows,
           .cols = kCols,
           .x = rows.data(),
           .n_x = n,
           .out = out.f(),
           .out_stride = kRows});
      return out;
    };
    const Array want = products(kernels.dot_q8_0, w.tensor().row_data(0));
    EXPECT_TRUE(products(kernels.dot_packed_q8_0_forms[0], copy).same_bits(want));
    EXPECT_TRUE(products(kernels.dot_packed_q8_0_forms[1], copy).same_bits(want));
  }
}

// Same bits from a copy as from the original, for projections with and without groups and for
// experts, one row and many; weights that cannot be copied, or no longer fit, are used as they are.
TEST(RepackTest, CopiesGiveTheSameBits) {
  const Array w = random_weights(DType::kQ8_0, {64, 512}, 21);
  const Array odd = random_weights(DType::kQ8_0, {40, 512}, 22);      // no whole groups of rows
  const Array narrow = random_weights(DType::kQ8_0, {64, 96}, 23);    // no whole groups of columns
  const Array grouped = random_weights(DType::kQ8_0, {96, 256}, 24);  // two groups of 48 rows
  const Array experts = random_weights(DType::kQ8_0, {4, 32, 512}, 25);
  const Array down = random_weights(DType::kQ8_0, {4, 512, 256}, 26);
  const Array over = random_weights(DType::kQ8_0, {64, 512}, 27);  // beyond the limit
  const std::vector<ConstTensor> weights = {w, odd, narrow, grouped, experts, down, over};
  int64_t fitting = 0;
  for (const Array* a : {&w, &grouped, &experts, &down}) fitting += a->n_bytes();

  const HostBackend plain = make_host(Host::kCpuInteger), packed = make_host(Host::kCpuInteger, 3);
  EXPECT_EQ(plain->repack(weights, 100), 0);
  EXPECT_EQ(packed->repack(weights, fitting), fitting);
  for (int64_t n : {1, 2, 7, 65}) {
    SCOPED_TRACE(n);
    const Array x = random_floats({n, 512}, 28), x_narrow = random_floats({n, 96}, 29);
    for (const Array* a : {&w, &odd, &over}) {
      EXPECT_TRUE(run_linear(*packed.ops, x, *a).same_bits(run_linear(*plain.ops, x, *a)));
    }
    EXPECT_TRUE(run_linear(*packed.ops, x_narrow, narrow)
                    .same_bits(run_linear(*plain.ops, x_narrow, narrow)));
    Array got = floats({n, 96}), want = floats({n, 96});
    packed->grouped_linear(got, x, grouped, 2);
    plain->grouped_linear(want, x, grouped, 2);
    EXPECT_TRUE(got.same_bits(want));
    const Array x_four =
        random_floats({n, 4 * 256}, 31);  // groups of 24 rows: not those of the copy
    packed->grouped_linear(got, x_four, grouped, 4);
    plain->grouped_linear(want, x_four, grouped, 4);
    EXPECT_TRUE(got.same_bits(want));

    Array ids = ints({n, 2}), weight = floats({n, 2});
    for (int64_t i = 0; i < 2 * n; ++i) {
      ids.i32()[i] = static_cast<int32_t>(i % 2 * 2 + i / 2 % 2);
      weight.f()[i] = 0.25f * static_cast<float>(i % 3 + 1);
    }
    const auto run = [&](Ops& ops) {
      Array mid = floats({n, 2, 32}), out = floats({n, 512});
      ops.experts_gate_up(mid, x, ids, weight, experts, experts, 10.0f);
      const Array wide = random_floats({n, 2, 256}, 30);
      ops.experts_down(out, wide, ids, down);
      return std::pair(std::move(mid), std::move(out));
    };
    const auto [mid, out] = run(*packed.ops);
    const auto [plain_mid, plain_out] = run(*plain.ops);
    EXPECT_TRUE(mid.same_bits(plain_mid));
    EXPECT_TRUE(out.same_bits(plain_out));
  }
}

// In f32 nothing is repacked: those kernels decode the file's blocks.
TEST(RepackTest, FloatActivationsTakeNoCopies) {
  const Array w = random_weights(DType::kQ8_0, {64, 512}, 21);
  const std::vector<ConstTensor> weights = {w};
  EXPECT_EQ(make_host(Host::kCpuFloat)->repack(weights, int64_t{1} << 30), 0);
  EXPECT_EQ(make_host(Host::kReference)->repack(weights, int64_t{1} << 30), 0);
}

}  // namespace
}  // namespace ds4::test
