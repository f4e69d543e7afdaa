#include "quant/hf_codecs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "base/check.h"

namespace ds4 {
namespace {

constexpr uint8_t kNanScale = 255;

tl::unexpected<Error> nan_scale(int64_t row, int64_t col) {
  return fail(
      ErrorCode::kCorrupt,
      fmt::format("row {} column {}: expected a finite E8M0 scale, found 0xff (NaN)", row, col));
}

// True when every value is finite; infinities come from a scale too large for f32.
bool all_finite(const float* x, int64_t n) {
  uint32_t top = 0;
  for (int64_t i = 0; i < n; ++i) top = std::max(top, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  return top < 0x7f800000u;
}

// Explains the first value of a decoded stretch that is not finite.
tl::unexpected<Error> not_finite(const float* x, int64_t n, int64_t row, int64_t col,
                                 uint8_t scale) {
  const float* bad = std::find_if(x, x + n, [](float v) { return !std::isfinite(v); });
  const int64_t where = col + (bad - x);
  if (std::isnan(*bad)) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("row {} column {}: expected a finite code, found NaN", row, where));
  }
  return fail(ErrorCode::kCorrupt,
              fmt::format("row {} column {}: value with scale 2^{} is beyond the range of f32", row,
                          where, static_cast<int>(scale) - 127));
}

const std::array<float, 256>& e4m3_table() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> t{};
    for (size_t c = 0; c < t.size(); ++c) t[c] = e4m3_to_f32(static_cast<uint8_t>(c));
    return t;
  }();
  return table;
}

}  // namespace

Result<void> decode_hf_row(const HfFp8Matrix& m, int64_t row, float* dst) {
  DS4_CHECK(row >= 0 && row < m.rows && m.cols >= 0);
  const std::array<float, 256>& values = e4m3_table();
  const uint8_t* codes = m.codes + row * m.cols;
  const uint8_t* scales = m.scales + row / kHfFp8Tile * m.scale_cols();
  for (int64_t col = 0; col < m.cols; col += kHfFp8Tile) {
    const uint8_t scale_code = scales[col / kHfFp8Tile];
    if (scale_code == kNanScale) return nan_scale(row, col);
    const float scale = e8m0_to_f32(scale_code);
    const int64_t n = std::min(kHfFp8Tile, m.cols - col);
    for (int64_t i = 0; i < n; ++i) dst[col + i] = values[codes[col + i]] * scale;
    if (!all_finite(dst + col, n)) return not_finite(dst + col, n, row, col, scale_code);
  }
  return {};
}

Result<void> decode_hf_row(const HfFp4Matrix& m, int64_t row, float* dst) {
  DS4_CHECK(row >= 0 && row < m.rows && m.cols >= 0 && m.cols % kHfFp4Group == 0);
  const uint8_t* codes = m.codes + row * (m.cols / 2);
  const uint8_t* scales = m.scales + row * m.scale_cols();
  for (int64_t col = 0; col < m.cols; col += kHfFp4Group) {
    const uint8_t scale_code = scales[col / kHfFp4Group];
    if (scale_code == kNanScale) return nan_scale(row, col);
    const float scale = e8m0_to_f32(scale_code);
    for (int64_t j = 0; j < kHfFp4Group / 2; ++j) {
      const uint8_t pair = codes[col / 2 + j];
      dst[col + 2 * j] = e2m1_to_f32(pair & 15u) * scale;
      dst[col + 2 * j + 1] = e2m1_to_f32(pair >> 4) * scale;
    }
    if (!all_finite(dst + col, kHfFp4Group)) {
      return not_finite(dst + col, kHfFp4Group, row, col, scale_code);
    }
  }
  return {};
}

Result<void> hf_row_to_bf16(const HfFp8Matrix& m, int64_t row, uint16_t* dst) {
  // Every f32 in between is exact, so bf16 is exact when the bits it drops are zero.
  std::vector<float> values(static_cast<size_t>(m.cols));
  DS4_TRY_VOID(decode_hf_row(m, row, values.data()));
  uint32_t lost = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(values[i]);
    lost |= bits & 0xffffu;
    dst[i] = static_cast<uint16_t>(bits >> 16);
  }
  if (lost == 0) return {};
  const auto bad = std::find_if(values.begin(), values.end(), [](float v) {
    return (std::bit_cast<uint32_t>(v) & 0xffffu) != 0;
  });
  return fail(ErrorCode::kUnsupported, fmt::format("row {} column {}: {:g} has no exact bf16 form",
                                                   row, bad - values.begin(), *bad));
}

Result<void> hf_row_to_mxfp4(const HfFp4Matrix& m, int64_t row, BlockMxfp4* dst) {
  DS4_CHECK(row >= 0 && row < m.rows && m.cols >= 0 && m.cols % kHfFp4Group == 0);
  const uint8_t* codes = m.codes + row * (m.cols / 2);
  const uint8_t* scales = m.scales + row * m.scale_cols();
  for (int64_t b = 0; b < m.scale_cols(); ++b) {
    if (scales[b] == kNanScale) return nan_scale(row, b * kHfFp4Group);
    dst[b].e = scales[b];
    // Value i sits in nibble i%2 of source byte i/2, and in nibble i/16 of destination byte i%16:
    // destination byte j takes values j and j+16, which share the nibble parity j%2.
    const uint8_t* src = codes + b * (kHfFp4Group / 2);
    for (int j = 0; j < kMxfp4Elems / 2; ++j) {
      const int shift = 4 * (j % 2);
      const unsigned low = src[j / 2] >> shift & 15u;
      const unsigned high = src[8 + j / 2] >> shift & 15u;
      dst[b].codes[j] = static_cast<uint8_t>(low | high << 4);
    }
  }
  return {};
}

}  // namespace ds4
