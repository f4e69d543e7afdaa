#include "quantizer/synth_rows.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/scalar.h"
#include "quant/iq2_xxs.h"
#include "quant/mxfp4.h"
#include "quant/q2_k.h"
#include "quant/q4_k.h"
#include "quant/q8_0.h"

namespace ds4 {
namespace {

// Standard deviation of a uniform choice from first, first + 1, ... last.
double uniform_deviation(int first, int last) {
  const double n = last - first + 1;
  return std::sqrt((n * n - 1) / 12);
}

// Root of the mean square of first + offset ... last + offset.
double uniform_rms(int first, int last, double offset = 0) {
  double sum = 0;
  for (int i = first; i <= last; ++i) sum += (i + offset) * (i + offset);
  return std::sqrt(sum / (last - first + 1));
}

// Codes of Q8_0 are random bytes with -128 turned into 0.
double q8_0_deviation() { return uniform_rms(-127, 127) * std::sqrt(255.0 / 256.0); }

// Group scales take the upper half of their range, where an encoder puts them: the largest is 15.
double iq2_xxs_deviation() {
  double sum = 0;
  for (const uint64_t levels : iq2_xxs::kGrid) {
    for (int i = 0; i < 8; ++i) {
      const auto level = static_cast<double>(levels >> (8 * i) & 255u);
      sum += level * level;
    }
  }
  return 0.25 * uniform_rms(8, 15, 0.5) * std::sqrt(sum / (8 * kIq2XxsGridSize));
}

// In both K formats a sub-block's minimum equals its scale, and dmin is d times the middle of the
// codes, so that values are centred.
constexpr double kQ2KMiddle = 1.5;
constexpr double kQ4KMiddle = 7.5;
double q2_k_deviation() { return uniform_rms(8, 15) * uniform_deviation(0, 3); }
double q4_k_deviation() { return uniform_rms(32, 63) * uniform_deviation(0, 15); }

// Four low bits stay clear: products with 1.5 and 7.5 are then exact, and the centre holds.
uint16_t rounded_scale(double value) {
  return static_cast<uint16_t>((f32_to_f16(static_cast<float>(value)) + 8) & ~15);
}

void fill_block(BlockQ8_0& block, SynthBits& bits, const uint16_t* d) {
  uint64_t words[kQ8_0Elems / 8];
  for (uint64_t& word : words) word = bits.next();
  std::memcpy(block.q, words, sizeof(block.q));
  for (int8_t& q : block.q) q = q == -128 ? int8_t{0} : q;
  block.d = d[bits.next() >> 56];
}

// Any codebook index and any sign index is valid.
void fill_block(BlockIq2Xxs& block, SynthBits& bits, const uint16_t* d) {
  for (int b = 0; b < kIq2XxsGroups; ++b) {
    const uint64_t word = bits.next() | uint64_t{1} << 63;
    std::memcpy(block.payload + 8 * b, &word, sizeof(word));
  }
  block.d = d[bits.next() >> 56];
}

void fill_block(BlockQ2K& block, SynthBits& bits, const uint16_t* d, const uint16_t* dmin) {
  for (int i = 0; i < kQ2KElems / 4; i += 8) {
    const uint64_t word = bits.next();
    std::memcpy(block.codes + i, &word, sizeof(word));
  }
  uint64_t word = bits.next();
  for (uint8_t& sc : block.sc) {
    const auto scale = static_cast<uint8_t>(8 | (word & 7));
    sc = static_cast<uint8_t>(scale | scale << 4);
    word >>= 3;
  }
  block.d = d[word & 255];  // 16 of the 64 bits are left
  block.dmin = dmin[word & 255];
}

void fill_block(BlockQ4K& block, SynthBits& bits, const uint16_t* d, const uint16_t* dmin) {
  for (int i = 0; i < kQ4KElems / 2; i += 8) {
    const uint64_t word = bits.next();
    std::memcpy(block.codes + i, &word, sizeof(word));
  }
  uint64_t word = bits.next();
  for (int j = 0; j < 4; ++j) {
    const unsigned low = 32 | (word & 31);        // of sub-block j
    const unsigned high = 32 | (word >> 5 & 31);  // of sub-block j + 4
    word >>= 10;
    block.scales[j] = block.scales[j + 4] = static_cast<uint8_t>(low | high >> 4 << 6);
    block.scales[j + 8] = static_cast<uint8_t>((high & 15) | (high & 15) << 4);
  }
  block.d = d[word & 255];
  block.dmin = dmin[word & 255];
}

void fill_block(BlockMxfp4& block, SynthBits& bits, uint8_t exponent, uint32_t n_larger) {
  const uint64_t words[2] = {bits.next(), bits.next()};
  std::memcpy(block.codes, words, sizeof(block.codes));
  block.e = static_cast<uint8_t>(exponent + (bits.next() >> 56 < n_larger ? 1 : 0));
}

template <typename Block, typename... Params>
void fill_blocks(uint64_t key, int64_t n_blocks, std::byte* dst, const Params&... params) {
  SynthBits bits(key);
  for (int64_t i = 0; i < n_blocks; ++i) {
    Block block;
    fill_block(block, bits, params...);
    std::memcpy(dst + i * static_cast<int64_t>(sizeof(Block)), &block, sizeof(Block));
  }
}

// Sum of the four bytes in the lower half of `word`.
unsigned byte_sum(uint64_t word) {
  return (word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24 & 255);
}

template <typename Value>
void fill_plain(uint64_t key, int64_t n, const Value* bell, std::byte* dst) {
  SynthBits bits(key);
  uint64_t word = 0;
  for (int64_t i = 0; i < n; ++i) {
    word = i % 2 == 0 ? bits.next() : word >> 32;
    std::memcpy(dst + i * static_cast<int64_t>(sizeof(Value)), &bell[byte_sum(word)],
                sizeof(Value));
  }
}

}  // namespace

SynthRows::SynthRows(DType type, double deviation) : type_(type) {
  DS4_CHECK(deviation > 0);
  switch (type) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      prepare_plain(deviation);
      break;
    case DType::kQ8_0:
      prepare_scales(deviation / q8_0_deviation(), 0);
      break;
    case DType::kIQ2_XXS:
      prepare_scales(deviation / iq2_xxs_deviation(), 0);
      break;
    case DType::kQ2_K:
      prepare_scales(deviation / q2_k_deviation(), kQ2KMiddle);
      break;
    case DType::kQ4_K:
      prepare_scales(deviation / q4_k_deviation(), kQ4KMiddle);
      break;
    case DType::kMXFP4:
      prepare_mxfp4(deviation);
      break;
    default:
      DS4_CHECK(false, "a floating type");
  }
}

void SynthRows::prepare_plain(double deviation) {
  const double step = deviation / (2 * uniform_deviation(0, 255));
  for (int i = 0; i < kBellValues; ++i) {
    const auto value = static_cast<float>((i - 2 * 255) * step);
    const auto at = static_cast<size_t>(i);
    bell_f32_[at] = value;
    bell_16_[at] = type_ == DType::kF16 ? f32_to_f16(value) : f32_to_bf16(value);
  }
  DS4_CHECK(type_ != DType::kF16 || 2 * 255 * step < 65504, "within F16");
}

// Scales of blocks differ by up to a quarter either way, as those of real weights do.
void SynthRows::prepare_scales(double mean, double min_ratio) {
  const auto factor = [](int i) { return 0.75 + 0.5 * i / 255; };
  double square = 0;
  for (int i = 0; i < 256; ++i) square += factor(i) * factor(i) / 256;
  for (int i = 0; i < 256; ++i) {
    const auto at = static_cast<size_t>(i);
    d_[at] = rounded_scale(mean * factor(i) / std::sqrt(square));
    dmin_[at] = f32_to_f16(static_cast<float>(min_ratio) * f16_to_f32(d_[at]));
    DS4_CHECK(d_[at] > 0 && d_[at] < 0x7000 && dmin_[at] < 0x7c00, "within F16");
  }
}

// Scales are powers of two: two neighbouring ones, in the shares that give the mean square.
void SynthRows::prepare_mxfp4(double deviation) {
  double square = 0;
  for (unsigned code = 0; code < 16; ++code) {
    const double value = e2m1_to_f32(code);
    square += value * value / 16;
  }
  const double scale = deviation / std::sqrt(square);
  const int exponent = std::ilogb(scale);
  DS4_CHECK(exponent > -126 && exponent < 120);
  exponent_ = static_cast<uint8_t>(exponent + 127);
  const double ratio = std::ldexp(scale, -exponent);  // 1 <= ratio < 2
  n_larger_ = static_cast<uint32_t>(std::lround(256 * (ratio * ratio - 1) / 3));
}

void SynthRows::fill(uint64_t key, int64_t n, std::byte* dst) const {
  const DTypeInfo& info = dtype_info(type_);
  DS4_CHECK(n % info.block_elems == 0);
  const int64_t n_blocks = n / info.block_elems;
  switch (type_) {
    case DType::kF32:
      return fill_plain(key, n, bell_f32_.data(), dst);
    case DType::kF16:
    case DType::kBF16:
      return fill_plain(key, n, bell_16_.data(), dst);
    case DType::kQ8_0:
      return fill_blocks<BlockQ8_0>(key, n_blocks, dst, d_.data());
    case DType::kIQ2_XXS:
      return fill_blocks<BlockIq2Xxs>(key, n_blocks, dst, d_.data());
    case DType::kQ2_K:
      return fill_blocks<BlockQ2K>(key, n_blocks, dst, d_.data(), dmin_.data());
    case DType::kQ4_K:
      return fill_blocks<BlockQ4K>(key, n_blocks, dst, d_.data(), dmin_.data());
    case DType::kMXFP4:
      return fill_blocks<BlockMxfp4>(key, n_blocks, dst, exponent_, n_larger_);
    default:
      DS4_CHECK(false, "a floating type");
  }
}

}  // namespace ds4
