#pragma once
// The id of one vocabulary entry. Every room that handles token ids includes this file and nothing
// else of the tokenizer.
#include <cstdint>

namespace ds4 {

using Token = int32_t;

}  // namespace ds4
