#include "backend/cpu/index_query.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "quant/packed_index.h"
#include "quant/rounding.h"

namespace ds4::cpu {
namespace {

int64_t padded(int64_t n_heads) { return (n_heads + kIndexLanes - 1) / kIndexLanes * kIndexLanes; }

void put_values(const IndexQuery& query, const float* q, int64_t n_heads, int64_t heads) {
  for (int64_t i = 0; i < kIndexDim; ++i) {
    float* lanes = query.values + i * heads;
    for (int64_t h = 0; h < n_heads; ++h) lanes[h] = q[h * kIndexDim + i];
    std::fill(lanes + n_heads, lanes + heads, 0.0f);
  }
}

// Doubled codes of a block, and its scale. The block's values are FP4's, so doubling gives
// integers.
float encode_block(const float* x, int8_t* codes, bool* plain) {
  const float amax = abs_max(x, kFp4BlockElems);
  if (!(amax <= std::numeric_limits<float>::max())) {
    std::fill_n(codes, kFp4BlockElems, int8_t{0});
    *plain = false;
    return std::numeric_limits<float>::quiet_NaN();
  }
  const int e = fp4_scale_exponent(amax);
  // The quarter of the scale counts.
  *plain = *plain && e - 2 >= -kIndexPlainExponent && e - 2 <= kIndexPlainExponent;
  const float inverse = exp2_int(-e);
  for (int i = 0; i < kFp4BlockElems; ++i) {
    codes[i] = static_cast<int8_t>(static_cast<int32_t>(x[i] * inverse * 2.0f));
  }
  return exp2_int(e) * 0.25f;  // both factors of a product are doubled
}

// One head into its lane. Words of four values in the order of a row that is unpacked nibble by
// nibble: values 0-15 of each block, then values 16-31 of each.
void put_codes(IndexQuery& query, const float* q, int64_t h, int64_t heads) {
  constexpr int64_t kHalf = kFp4BlockElems / 2;
  for (int64_t b = 0; b < kPackedIndexBlocks; ++b) {
    int8_t codes[kFp4BlockElems];
    query.scales[b * heads + h] = encode_block(q + b * kFp4BlockElems, codes, &query.plain);
    int32_t sum = 0;
    for (int8_t code : codes) sum += code;
    query.starts[b * heads + h] = -kIndexBias * sum;
    for (int64_t i = 0; i < kFp4BlockElems; i += 4) {
      const int64_t at = i / kHalf * (kIndexDim / 2) + b * kHalf + i % kHalf;
      std::memcpy(query.codes + at * heads + h * 4, codes + i, 4);
    }
  }
}

}  // namespace

int64_t index_query_bytes(int64_t n_heads) {
  return padded(n_heads) * (kIndexDim + 1) * static_cast<int64_t>(sizeof(float));
}

IndexQuery make_index_query(std::byte* memory, const float* q, const float* weights, float scale,
                            int64_t n_heads, RowFormat format) {
  const int64_t heads = padded(n_heads);
  IndexQuery query;
  query.n_groups = heads / kIndexLanes;
  query.weights = reinterpret_cast<float*>(memory);
  for (int64_t h = 0; h < n_heads; ++h) query.weights[h] = weights[h] * scale;
  std::fill(query.weights + n_heads, query.weights + heads, 0.0f);
  if (format == RowFormat::kF32) {
    query.values = query.weights + heads;
    put_values(query, q, n_heads, heads);
    return query;
  }
  query.scales = query.weights + heads;
  query.starts = reinterpret_cast<int32_t*>(query.scales + kPackedIndexBlocks * heads);
  query.codes = reinterpret_cast<int8_t*>(query.starts + kPackedIndexBlocks * heads);
  // Heads that fill up the lanes: zero products, whatever a row has, and finite scales.
  std::fill_n(query.scales, kPackedIndexBlocks * heads, 1.0f);
  std::fill_n(query.starts, kPackedIndexBlocks * heads, 0);
  std::fill_n(query.codes, kIndexDim * heads, int8_t{0});
  query.plain = true;
  for (int64_t h = 0; h < n_heads; ++h) put_codes(query, q + h * kIndexDim, h, heads);
  return query;
}

}  // namespace ds4::cpu
