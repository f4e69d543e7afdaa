#pragma once
// KV state at a long context without evaluating it: packed rows with random codes, one set of pages
// for each of several layers, so that a benchmark that walks the layers reads from memory.
#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "ops/kv_view.h"
#include "quant/packed_index.h"
#include "quant/packed_kv.h"

namespace ds4 {

// Values at a multiple of 64 bytes, as the engine's workspace has them.
class Values {
 public:
  Values(int64_t n, unsigned seed) : lines_(static_cast<size_t>(n + 15) / 16), n_(n) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < n; ++i) data()[i] = normal(random);
  }
  float* data() { return lines_[0].values; }
  Tensor tensor(const Shape& shape) {
    DS4_CHECK(shape.n_elements() == n_);
    return Tensor(reinterpret_cast<std::byte*>(data()), DType::kF32, shape);
  }

 private:
  struct alignas(64) Line {
    float values[16];
  };
  std::vector<Line> lines_;
  int64_t n_;
};

// Rows of `format` in pages: a bank of random rows over and over.
class SyntheticRows {
 public:
  SyntheticRows(RowFormat format, int64_t width, int64_t n_rows, unsigned seed)
      : row_bytes_(kv_row_bytes(format, width)), format_(format) {
    constexpr int64_t kBank = 61;
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<std::byte> bank(static_cast<size_t>(kBank * row_bytes_));
    std::vector<float> values(static_cast<size_t>(width));
    for (int64_t r = 0; r < kBank; ++r) {
      for (float& v : values) v = normal(random);
      encode(values.data(), width, bank.data() + r * row_bytes_);
    }
    const int64_t n_pages = (n_rows + kPageRows - 1) / kPageRows;
    memory_.resize(static_cast<size_t>(n_pages * kPageRows * row_bytes_));
    for (int64_t r = 0; r < n_pages * kPageRows; ++r) {
      std::memcpy(memory_.data() + r * row_bytes_,
                  bank.data() + static_cast<int64_t>(random() % kBank) * row_bytes_,
                  static_cast<size_t>(row_bytes_));
    }
    for (int64_t p = 0; p < n_pages; ++p) {
      pages_.push_back(memory_.data() + p * kPageRows * row_bytes_);
    }
  }
  PagedRows rows() const { return {pages_.data(), row_bytes_, format_}; }
  RingRows ring(int64_t n_rows, int64_t width) {
    return RingRows(memory_.data(), n_rows, width, format_);
  }

 private:
  void encode(float* values, int64_t width, std::byte* row) const {
    if (format_ == RowFormat::kPackedIndex) {
      fp4_round_trip(values, width);
      encode_packed_index(values, reinterpret_cast<PackedIndexRow*>(row));
    } else if (format_ == RowFormat::kPackedKv) {
      fp8_round_trip(values, width - kPackedKvRope);
      bf16_round_trip(values + width - kPackedKvRope, kPackedKvRope);
      encode_packed_kv(values, width, reinterpret_cast<uint8_t*>(row));
    } else {
      std::memcpy(row, values, static_cast<size_t>(row_bytes_));
    }
  }

  const int64_t row_bytes_;
  const RowFormat format_;
  std::vector<std::byte> memory_;
  std::vector<std::byte*> pages_;
};

}  // namespace ds4
