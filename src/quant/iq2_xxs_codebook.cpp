#include "quant/iq2_xxs_codebook.h"

#include <limits>

namespace ds4::iq2_xxs {

const Codebook& Codebook::get() {
  static const Codebook instance;
  return instance;
}

Codebook::Codebook() {
  index_.fill(-1);
  for (int n = 0; n < kIq2XxsGridSize; ++n) {
    const auto e = static_cast<size_t>(n);
    int rank = 0;
    for (size_t i = 0; i < kOctet; ++i) {
      digits_[e][i] = static_cast<uint8_t>(kGridCodes[e] >> (2 * i) & 3);
      rank += kDigitWeights[i] * digits_[e][i];
    }
    index_[static_cast<size_t>(rank)] = static_cast<int16_t>(n);
  }
  for (int rank = 0; rank < kDigitVectors; ++rank) {
    begin_[static_cast<size_t>(rank)] = static_cast<int32_t>(neighbours_.size());
    if (index_of(rank) < 0) append_neighbours(rank);
  }
  begin_[kDigitVectors] = static_cast<int32_t>(neighbours_.size());
  for (size_t i = 0; i < kOctet; ++i) {
    for (const uint8_t entry : neighbours_) planes_[i].push_back(digits_[entry][i]);
    planes_[i].resize(planes_[i].size() + kReadAhead);
  }
}

void Codebook::append_neighbours(int rank) {
  int distance[kIq2XxsGridSize];
  int nearest = std::numeric_limits<int>::max();
  int second = nearest;
  for (int n = 0; n < kIq2XxsGridSize; ++n) {
    distance[n] = 0;
    int rest = rank;
    for (int i = 0; i < kOctet; ++i, rest /= 3) {
      const int step = rest % 3 - digits(n)[i];
      distance[n] += step * step;
    }
    if (distance[n] < nearest) {
      second = nearest;
      nearest = distance[n];
    } else if (distance[n] > nearest && distance[n] < second) {
      second = distance[n];
    }
  }
  for (const int wanted : {nearest, second}) {
    for (int n = 0; n < kIq2XxsGridSize; ++n) {
      if (distance[n] == wanted) neighbours_.push_back(static_cast<uint8_t>(n));
    }
  }
}

}  // namespace ds4::iq2_xxs
