#pragma once
// The state of one session in the layers of one stage: what attention can look back on.
//
//   layer, every ratio     ring       [kRingRows, head_dim]       raw rows, row = position mod
//   kRingRows layer, ratio 4 or 128  rows       floor(length / ratio)       compressed rows, pages
//   of kPageRows
//                          frontier   [8, 2h] or [128, h], twice  windows that are not complete yet
//   layer, ratio 4         index rows and index frontier, 128 wide
//
// All memory is taken at create(); a step allocates nothing. Rows are f32: the roundings of the
// precision profile have been applied before a row is stored, so every reader sees the same values.
//
// Thread-compatible; the Device must outlive it.
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/config.h"
#include "ops/device.h"
#include "ops/kv_view.h"

namespace ds4 {

class KvCache {
 public:
  // Ring slots: the window of 128, and as many again so that up to 128 speculative rows can be
  // written without losing one that is still visible after a rewind.
  static constexpr int64_t kRingRows = 256;

  // One layer per entry of `ratios` (0, 4 or 128), for up to `capacity` positions.
  // Errors: kOutOfMemory with the bytes asked for.
  static Result<KvCache> create(Device& device, const ModelConfig& config,
                                std::span<const int> ratios, int64_t capacity);

  // Bytes create() would take.
  static int64_t bytes_needed(const ModelConfig& config, std::span<const int> ratios,
                              int64_t capacity);

  int64_t length() const { return length_; }  // positions held: 0 .. length - 1
  int64_t capacity() const { return capacity_; }

  // Views of layer `i`, for the ops of a step.
  const LayerKv& layer(int i) const { return layers_[static_cast<size_t>(i)]; }

  // Called when a step over `n` further positions is complete in every layer.
  void advance(int64_t n);

  // Forgets everything: length 0, frontiers at (0, -inf).
  void reset();

 private:
  KvCache() = default;

  Device* device_ = nullptr;
  int64_t length_ = 0;
  int64_t capacity_ = 0;
  Buffer memory_;
  std::vector<std::byte*> pages_;  // page tables of all layers, one after the other
  std::vector<LayerKv> layers_;
};

}  // namespace ds4
