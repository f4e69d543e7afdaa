// Nothing counts in 32 bits: tensors of more than 2^32 bytes and elements, of which an op touches a
// few rows near both ends. Memory is reserved, not committed, so that only touched pages are real.
// The oracle is the same op over a small copy of the touched rows: the same bits.
#include <sys/mman.h>

#include "tests/backend/backend_test.h"

namespace ds4::test {
namespace {

constexpr int64_t k32 = int64_t{1} << 32;

// Address space that reads as zeros and becomes memory where it is written.
class Reserved {
 public:
  explicit Reserved(int64_t size_bytes) : size_(static_cast<size_t>(size_bytes)) {
    void* at = mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at != MAP_FAILED) data_ = static_cast<std::byte*>(at);
  }
  ~Reserved() {
    if (data_ != nullptr) munmap(data_, size_);
  }
  Reserved(const Reserved&) = delete;
  Reserved& operator=(const Reserved&) = delete;
  std::byte* data() const { return data_; }

 private:
  size_t size_;
  std::byte* data_ = nullptr;
};

// A tensor of `shape` in reserved memory.
class Large {
 public:
  Large(DType dtype, const Shape& shape)
      : memory_(shape.n_rows() * row_bytes(dtype, shape.n_cols())),
        tensor_(memory_.data(), dtype, shape) {}
  bool usable() const { return memory_.data() != nullptr; }
  const Tensor& tensor() const { return tensor_; }
  operator Tensor() const { return tensor_; }
  operator ConstTensor() const { return tensor_; }

 private:
  Reserved memory_;
  Tensor tensor_;
};

#define DS4_NEEDS_ADDRESS_SPACE(large) \
  if (!(large).usable()) GTEST_SKIP() << "this system reserves no such address space"

// Copies rows [from, from + n) of `src` to rows `to` and on of `dst`.
void copy_rows(const Tensor& dst, int64_t to, const ConstTensor& src, int64_t from, int64_t n) {
  std::memcpy(dst.row_data(to), src.row_data(from), static_cast<size_t>(n * src.row_stride()));
}

// `n_rows` rows of `cols` values, a bank of 16 random rows over and over; encoding all would take
// minutes.
Array patterned(DType type, const Shape& shape, uint32_t seed) {
  const Array& bank = random_weights(type, {16, shape.n_cols()}, seed);
  Array out(type, shape);
  for (int64_t r = 0; r < shape.n_rows(); ++r) {
    copy_rows(out.tensor(), r, bank.tensor(), (r * 7 + r / 16) % 16, 1);
  }
  return out;
}

TEST(LargeShape, ProductsHave64Bits) {
  const Shape stack{256, 520, 32768};
  EXPECT_EQ(stack.n_elements(), int64_t{256} * 520 * 32768);
  EXPECT_GT(stack.n_elements(), k32);
  EXPECT_EQ((Shape{3000000000, 2}).n_elements(), 6000000000);
  EXPECT_EQ((Shape{65536, 65536, 3}).n_rows(), k32);
  EXPECT_EQ(row_bytes(DType::kF32, int64_t{1} << 31), int64_t{1} << 33);
  EXPECT_EQ(row_bytes(DType::kQ8_0, k32), k32 / 32 * 34);
  const Large large(DType::kQ8_0, stack);
  DS4_NEEDS_ADDRESS_SPACE(large);
  const int64_t last = int64_t{255} * 520 * (32768 / 32 * 34);
  EXPECT_EQ(large.tensor().slice(255, 1).data() - large.tensor().data(), last);
  EXPECT_EQ(at(large, 255).data() - large.tensor().data(), last);
  EXPECT_EQ(large.tensor().row_data(255 * 520) - large.tensor().data(), last);
  EXPECT_GT(last, k32);
}

class LargeIndex : public OnEveryHost {};
DS4_ON_EVERY_HOST(LargeIndex);

// Experts 0 and 255 of stacks with more than 2^32 elements, so more bytes still, against a stack of
// those two. Q8_0 takes the fewest bytes for its elements that random rows are quickly made in.
TEST_P(LargeIndex, FirstAndLastExpertOfAStack) {
  constexpr int64_t kExperts = 256, kFfn = 520, kHidden = 32768;
  const Large gate(DType::kQ8_0, {kExperts, kFfn, kHidden});
  const Large up(DType::kQ8_0, {kExperts, kFfn, kHidden});
  DS4_NEEDS_ADDRESS_SPACE(gate);
  DS4_NEEDS_ADDRESS_SPACE(up);
  ASSERT_GT(gate.tensor().shape().n_elements(), k32);
  const Array small_gate = patterned(DType::kQ8_0, {2, kFfn, kHidden}, 1);
  const Array small_up = patterned(DType::kQ8_0, {2, kFfn, kHidden}, 2);
  for (int64_t e : {0, 1}) {
    copy_rows(gate, e * 255 * kFfn, small_gate, e * kFfn, kFfn);
    copy_rows(up, e * 255 * kFfn, small_up, e * kFfn, kFfn);
  }
  const Array x = random_floats({1, kHidden}, 3), weights = random_floats({1, 2}, 4);
  Array ids = ints({1, 2}), small_ids = ints({1, 2});
  ids.i32()[1] = 255;
  small_ids.i32()[1] = 1;
  Array got = floats({1, 2, kFfn}), want = floats({1, 2, kFfn});
  host->experts_gate_up(got, x, ids, weights, gate, up, 10.0f);
  host->experts_gate_up(want, x, small_ids, weights, small_gate, small_up, 10.0f);
  EXPECT_TRUE(got.same_bits(want));

  // The way down: the same bytes as [experts, hidden, ffn].
  const Large down(DType::kQ8_0, {kExperts, kFfn, kHidden});
  DS4_NEEDS_ADDRESS_SPACE(down);
  for (int64_t e : {0, 1}) copy_rows(down, e * 255 * kFfn, small_gate, e * kFfn, kFfn);
  const Array mid = random_floats({1, 2, kHidden}, 5);
  Array out = floats({1, kFfn}), small_out = floats({1, kFfn});
  host->experts_down(out, mid, ids, down);
  host->experts_down(small_out, mid, small_ids, small_gate);
  EXPECT_TRUE(out.same_bits(small_out));
}

// Rows of a table on both sides of byte 2^32 and at its end.
TEST_P(LargeIndex, EmbeddingRowsBeyond4GiB) {
  constexpr int64_t kHidden = 4096, kRowBytes = kHidden / 32 * 34, kRows = k32 / kRowBytes + 5000;
  const Large table(DType::kQ8_0, {kRows, kHidden});
  DS4_NEEDS_ADDRESS_SPACE(table);
  const Array small = random_weights(DType::kQ8_0, {5, kHidden}, 6);
  const int64_t rows[] = {0, 17, k32 / kRowBytes, k32 / kRowBytes + 1, kRows - 1};
  Array tokens = ints({5}), small_tokens = ints({5});
  for (int i = 0; i < 5; ++i) {
    copy_rows(table, rows[i], small, i, 1);
    tokens.i32()[i] = static_cast<int32_t>(rows[i]);
    small_tokens.i32()[i] = i;
  }
  Array got = floats({5, kHidden}), want = floats({5, kHidden});
  host->embed(got, table, tokens);
  host->embed(want, small, small_tokens);
  EXPECT_TRUE(got.same_bits(want));
}

TEST_P(LargeIndex, GatheredRowsBeyond4GiB) {
  constexpr int64_t kStreams = 4, kHidden = 4096, kRowBytes = kStreams * kHidden * 4;
  constexpr int64_t kRows = k32 / kRowBytes + 1000;
  const Large streams(DType::kF32, {kRows, kStreams, kHidden});
  DS4_NEEDS_ADDRESS_SPACE(streams);
  const Array small = random_floats({3, kStreams, kHidden}, 7);
  const int64_t rows[] = {kRows - 1, 0, k32 / kRowBytes}, small_rows[] = {0, 1, 2};
  for (int i = 0; i < 3; ++i) {
    copy_rows(streams, rows[i] * kStreams, small, i * kStreams, kStreams);
  }
  Array got = floats({3, kStreams, kHidden}), want = floats({3, kStreams, kHidden});
  host->gather_rows(got, streams, rows);
  host->gather_rows(want, small, small_rows);
  EXPECT_TRUE(got.same_bits(want));
}

// The last rows of a weight matrix, as a slice of it.
TEST_P(LargeIndex, ProjectionByRowsBeyond4GiB) {
  constexpr int64_t kCols = 8192, kRowBytes = kCols * 2, kRows = k32 / kRowBytes + 100;
  const Large w(DType::kBF16, {kRows, kCols});
  DS4_NEEDS_ADDRESS_SPACE(w);
  const Array small = random_weights(DType::kBF16, {70, kCols}, 8);
  copy_rows(w, kRows - 70, small, 0, 70);
  const ConstTensor last = w.tensor().slice(kRows - 70, 70);
  ASSERT_GT(last.data() - w.tensor().data(), k32);
  const Array x = random_floats({3, kCols}, 9);
  Array got = floats({3, 70}), want = floats({3, 70});
  host->linear(got, x, last);
  host->linear(want, x, small);
  EXPECT_TRUE(got.same_bits(want));
}

// Compressed rows whose place in one large table is beyond byte 2^32: written by the compressor,
// read by attention. The oracle's pages are all the same small one.
class LargePages {
 public:
  static constexpr int64_t kDim = 512, kRowBytes = kDim * 4;
  static constexpr int64_t kRows = k32 / kRowBytes + 2 * kPageRows;

  LargePages() : rows_(DType::kF32, {kRows, kDim}), small_(floats({kPageRows, kDim})) {
    if (!rows_.usable()) return;
    for (int64_t p = 0; p < kRows / kPageRows; ++p) {
      pages_.push_back(rows_.tensor().row_data(p * kPageRows));
      small_pages_.push_back(small_.data());
    }
  }
  bool usable() const { return rows_.usable(); }
  PagedRows large() const { return {pages_.data(), kRowBytes}; }
  PagedRows small() const { return {small_pages_.data(), kRowBytes}; }

 private:
  Large rows_;
  Array small_;
  std::vector<std::byte*> pages_, small_pages_;
};

TEST_P(LargeIndex, CompressedRowsBeyond4GiB) {
  constexpr int64_t kRow = k32 / LargePages::kRowBytes + 10, kDim = LargePages::kDim;
  const LargePages pages;
  DS4_NEEDS_ADDRESS_SPACE(pages);
  const Array kv = random_floats({4, 2 * kDim}, 10), gate = random_floats({4, 2 * kDim}, 11);
  const Array ape = random_floats({4, 2 * kDim}, 12), norm = random_floats({kDim}, 13);
  const std::vector<float> freqs(32, 0.01f);
  const auto compress = [&](const PagedRows& rows) {
    Array frontier_kv = floats({8, 2 * kDim}), frontier_score = floats({8, 2 * kDim});
    KvSpan span{.first_row = 0, .n_rows = 4, .first_pos = kRow * 4, .kv = {}};
    span.kv.attn = {rows, frontier_kv, frontier_score};
    host->compress({&span, 1}, kv, gate, ape, norm, freqs, {.ratio = 4, .rms_eps = 1e-6f});
    return std::vector<float>(rows.row_f32(kRow), rows.row_f32(kRow) + kDim);
  };
  const std::vector<float> got = compress(pages.large());
  EXPECT_EQ(got, compress(pages.small()));
  EXPECT_NE(got, std::vector<float>(kDim, 0.0f));

  // Attention over one chosen row far away: the row just written.
  const Array q = random_floats({1, 2, kDim}, 14), raw = random_floats({1, kDim}, 15);
  const Array sinks = random_floats({2}, 16), ring = random_floats({256, kDim}, 17);
  Array selected = ints({1, 1});
  selected.i32()[0] = static_cast<int32_t>(kRow);
  const auto attend = [&](const PagedRows& rows) {
    KvSpan span{.first_row = 0, .n_rows = 1, .first_pos = kRow * 4 + 4, .kv = {}};
    span.kv.ring = Tensor(const_cast<std::byte*>(ring.tensor().data()), DType::kF32, {256, kDim});
    span.kv.attn.rows = rows;
    Array out = floats({1, 2, kDim});
    host->attention(out, q, raw, sinks, selected, {&span, 1}, {.window = 128, .ratio = 4});
    return out;
  };
  EXPECT_TRUE(attend(pages.large()).same_bits(attend(pages.small())));
}

}  // namespace
}  // namespace ds4::test
