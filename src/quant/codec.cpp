#include "quant/codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstring>
#include <string>

#include "base/check.h"
#include "base/scalar.h"
#include "quant/iq2_xxs.h"
#include "quant/mxfp4.h"
#include "quant/q2_k.h"
#include "quant/q4_k.h"
#include "quant/q8_0.h"
#include "quant/rounding.h"

namespace ds4 {
namespace {

constexpr DType kEncodable[] = {DType::kF32,  DType::kF16,  DType::kBF16,    DType::kQ8_0,
                                DType::kQ4_K, DType::kQ2_K, DType::kIQ2_XXS, DType::kMXFP4};

// 16-bit loads and stores go through memcpy: a safetensors header may end at an odd byte.
template <float (*kDecode)(uint16_t)>
void decode_halves(const void* src, float* dst, int64_t n) {
  const auto* bytes = static_cast<const unsigned char*>(src);
  for (int64_t i = 0; i < n; ++i) {
    uint16_t h;
    std::memcpy(&h, bytes + 2 * i, sizeof(h));
    dst[i] = kDecode(h);
  }
}

template <uint16_t (*kEncode)(float)>
void encode_halves(const float* src, void* dst, int64_t n) {
  auto* bytes = static_cast<unsigned char*>(dst);
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t h = kEncode(src[i]);
    std::memcpy(bytes + 2 * i, &h, sizeof(h));
  }
}

template <typename Block, int kElems>
void decode_blocks(const void* src, float* dst, int64_t n) {
  const auto* blocks = static_cast<const Block*>(src);
  for (int64_t b = 0; b < n / kElems; ++b) decode_block(blocks[b], dst + b * kElems);
}

template <typename Block, int kElems>
void encode_blocks(const float* src, void* dst, int64_t n) {
  auto* blocks = static_cast<Block*>(dst);
  for (int64_t b = 0; b < n / kElems; ++b) encode_block(src + b * kElems, blocks + b);
}

// A column that calibration never saw fire has importance 0, and a search that may put any value
// there does: a block of zeros comes back as zeros, whatever its weights. Such columns count as
// this share of the block's mean instead, so that they are merely less important than the others.
constexpr float kUnseenShare = 0.01f;

// `importance` itself when every value is positive, else a copy in `storage` [n] without zeros.
const float* without_zeros(const float* importance, int n, float* storage) {
  if (std::find(importance, importance + n, 0.0f) == importance + n) return importance;
  double sum = 0;
  int n_seen = 0;
  for (int i = 0; i < n; ++i) {
    sum += importance[i];
    n_seen += importance[i] > 0 ? 1 : 0;
  }
  // Nothing seen: all alike. Weights count only in relation to each other.
  const float unseen = n_seen == 0 ? 1.0f : kUnseenShare * static_cast<float>(sum / n_seen);
  for (int i = 0; i < n; ++i) storage[i] = importance[i] > 0 ? importance[i] : unseen;
  return storage;
}

template <typename Block, int kElems>
void encode_blocks(const float* src, const float* importance, void* dst, int64_t n) {
  auto* blocks = static_cast<Block*>(dst);
  float storage[kElems];
  for (int64_t b = 0; b < n / kElems; ++b) {
    const float* u =
        importance == nullptr ? nullptr : without_zeros(importance + b * kElems, kElems, storage);
    encode_block(src + b * kElems, u, blocks + b);
  }
}

bool is_plain(DType type) {
  return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16;
}

Result<void> check_values(const float* src, int64_t n, DType type) {
  if (std::isfinite(abs_max(src, n))) return {};
  const auto* bad = std::find_if(src, src + n, [](float v) { return !std::isfinite(v); });
  return fail(ErrorCode::kNonFinite, fmt::format("{} needs finite values, found {} at column {}",
                                                 dtype_name(type), *bad, bad - src));
}

Result<void> check_importance(const float* importance, int64_t n, DType type) {
  if (importance == nullptr) {
    if (!needs_importance(type)) return {};
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} needs an importance vector of {} values, found none", dtype_name(type), n));
  }
  const auto* bad =
      std::find_if(importance, importance + n, [](float v) { return !(v >= 0) || std::isinf(v); });
  if (bad == importance + n) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("importance must be finite and not negative, found {} at column {}", *bad,
                          bad - importance));
}

Result<void> check_encode(DType type, const float* src, const float* importance, int64_t n) {
  if (std::find(std::begin(kEncodable), std::end(kEncodable), type) == std::end(kEncodable)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot encode floats as {}", dtype_name(type)));
  }
  const int64_t block = dtype_info(type).block_elems;
  if (n < 0 || n % block != 0) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} rows are a multiple of {} values, found {}", dtype_name(type), block, n));
  }
  if (!is_plain(type)) DS4_TRY_VOID(check_values(src, n, type));
  if (uses_importance(type)) DS4_TRY_VOID(check_importance(importance, n, type));
  return {};
}

// Lower case without '-' and '_'.
std::string plain_name(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c == '-' || c == '_') continue;
    plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return plain;
}

}  // namespace

void decode_row(DType type, const void* src, float* dst, int64_t n) {
  DS4_CHECK(n >= 0 && n % dtype_info(type).block_elems == 0);
  switch (type) {
    case DType::kF32:
      if (n > 0) std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(float));
      return;
    case DType::kF16:
      return decode_halves<f16_to_f32>(src, dst, n);
    case DType::kBF16:
      return decode_halves<bf16_to_f32>(src, dst, n);
    case DType::kQ8_0:
      return decode_blocks<BlockQ8_0, kQ8_0Elems>(src, dst, n);
    case DType::kQ4_K:
      return decode_blocks<BlockQ4K, kQ4KElems>(src, dst, n);
    case DType::kQ2_K:
      return decode_blocks<BlockQ2K, kQ2KElems>(src, dst, n);
    case DType::kIQ2_XXS:
      return decode_blocks<BlockIq2Xxs, kIq2XxsElems>(src, dst, n);
    case DType::kMXFP4:
      return decode_blocks<BlockMxfp4, kMxfp4Elems>(src, dst, n);
    case DType::kI32:
    case DType::kI64:
      break;
  }
  check_failed("a floating type", __FILE__, __LINE__, "decode_row");
}

Result<void> encode_row(DType type, const float* src, const float* importance, void* dst,
                        int64_t n) {
  DS4_TRY_VOID(check_encode(type, src, importance, n));
  switch (type) {
    case DType::kF32:
      if (n > 0) std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(float));
      break;
    case DType::kF16:
      encode_halves<f32_to_f16>(src, dst, n);
      break;
    case DType::kBF16:
      encode_halves<f32_to_bf16>(src, dst, n);
      break;
    case DType::kQ8_0:
      encode_blocks<BlockQ8_0, kQ8_0Elems>(src, dst, n);
      break;
    case DType::kQ4_K:
      encode_blocks<BlockQ4K, kQ4KElems>(src, importance, dst, n);
      break;
    case DType::kQ2_K:
      encode_blocks<BlockQ2K, kQ2KElems>(src, importance, dst, n);
      break;
    case DType::kIQ2_XXS:
      encode_blocks<BlockIq2Xxs, kIq2XxsElems>(src, importance, dst, n);
      break;
    case DType::kMXFP4:
      encode_blocks<BlockMxfp4, kMxfp4Elems>(src, dst, n);
      break;
    case DType::kI32:
    case DType::kI64:
      check_failed("an encodable type", __FILE__, __LINE__, "encode_row");
  }
  return {};
}

bool uses_importance(DType type) {
  return type == DType::kQ4_K || type == DType::kQ2_K || type == DType::kIQ2_XXS;
}

bool needs_importance(DType type) { return type == DType::kIQ2_XXS; }

Result<DType> dtype_from_name(std::string_view name) {
  const std::string wanted = plain_name(name);
  std::string known;
  for (const DType type : kEncodable) {
    if (plain_name(dtype_name(type)) == wanted) return type;
    known += fmt::format(" {}", dtype_name(type));
  }
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("unknown element type '{}': expected one of{}", name, known));
}

}  // namespace ds4
