#pragma once
// The vocabularies that a synthetic model needs, held by the program itself, so that it makes one
// where neither a checkpoint nor the source tree is.
#include "base/result.h"
#include "model/config.h"
#include "tokenizer/vocab.h"

namespace ds4 {

// models/vocab for Flash and Pro, models/nano/tokenizer.json for Nano. Errors: those of reading
// them, which only a damaged program has.
Result<VocabData> embedded_vocab(const ModelConfig& config);

}  // namespace ds4
