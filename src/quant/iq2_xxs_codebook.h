#pragma once
// The codebook of IQ2_XXS as its encoder needs it: for every vector of eight digits 0..2 either the
// entry it is, or the entries worth trying instead. Built once, then constant: thread-safe.
#include <array>
#include <cstdint>
#include <vector>

#include "quant/iq2_xxs.h"

namespace ds4::iq2_xxs {

inline constexpr int kOctet = 8;
inline constexpr int kDigitVectors = 6561;  // 3^8

inline constexpr int kReadAhead = 16;

// Weight of digit i in a vector's number.
inline constexpr int kDigitWeights[kOctet] = {1, 3, 9, 27, 81, 243, 729, 2187};

class Codebook {
 public:
  static const Codebook& get();

  // Entry of the digit vector with this number, or -1.
  int index_of(int rank) const { return index_[static_cast<size_t>(rank)]; }

  // Entries at the two smallest distinct distances from a vector that is no entry, by (distance,
  // index). Candidate c is entries()[begin + c].
  struct Range {
    int begin = 0;
    int n = 0;
  };
  Range neighbours(int rank) const {
    const auto r = static_cast<size_t>(rank);
    return {begin_[r], begin_[r + 1] - begin_[r]};
  }
  const uint8_t* entries() const { return neighbours_.data(); }
  // Digit i of each of entries(); kReadAhead bytes can be read from any of them.
  const uint8_t* digit_plane(int i) const { return planes_[static_cast<size_t>(i)].data(); }

  // The eight digits of an entry.
  const uint8_t* digits(int entry) const { return digits_[static_cast<size_t>(entry)].data(); }

 private:
  Codebook();
  void append_neighbours(int rank);

  std::array<std::array<uint8_t, kOctet>, kIq2XxsGridSize> digits_{};
  std::array<int16_t, kDigitVectors> index_{};
  std::array<int32_t, kDigitVectors + 1> begin_{};
  std::vector<uint8_t> neighbours_;
  std::array<std::vector<uint8_t>, kOctet> planes_;
};

}  // namespace ds4::iq2_xxs
