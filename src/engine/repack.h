#pragma once
// Which weights a backend may copy into a form of its own (Ops::repack), most useful first.
#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "model/weights.h"

namespace ds4 {

// The matrices of a step: those that every token reads, then the routed experts, then the draft
// block's. Views; valid as long as the weights.
std::vector<ConstTensor> repack_order(const Weights& weights);

// Bytes that copies of all of them would take on such a backend.
int64_t repackable_bytes(const Weights& weights, BackendKind kind, const BackendOptions& options);

}  // namespace ds4
