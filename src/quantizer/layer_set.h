#pragma once
// A set of layers as people write it: "37-42", "0-2,40-42", "5". Ranges include both ends.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace ds4 {

class LayerSet {
 public:
  // Layers first .. last; none when last < first.
  static LayerSet range(int64_t first, int64_t last);
  // Errors: kInvalidArgument for text that is no such list or a range that runs backwards.
  static Result<LayerSet> parse(std::string_view text);

  // Errors: kInvalidArgument for a layer that a model of `n_layers` does not have.
  Result<void> check(int64_t n_layers) const;

  bool contains(int64_t layer) const;
  bool empty() const { return ranges_.empty(); }
  // "37-42", as it was written.
  std::string to_string() const;

 private:
  std::vector<std::pair<int64_t, int64_t>> ranges_;
};

}  // namespace ds4
