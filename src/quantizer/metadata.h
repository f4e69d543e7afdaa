#pragma once
// The metadata of a DeepSeek-V4 GGUF file: every key config_from_gguf() demands, and the
// vocabulary.
#include <string>

#include "gguf/writer.h"
#include "model/config.h"
#include "tokenizer/vocab.h"

namespace ds4 {

// What metadata says beyond the shape.
struct MetadataOptions {
  // Zeros after the layers' compress ratios: the published files have one per MTP block.
  int n_draft_blocks = 0;
  // Which text the effort levels add: "preview" for the first releases, "official" for later ones.
  std::string effort_profile = "preview";
  // Follows the model's name in general.name: ", synthetic".
  std::string name_note;
};

// Adds all keys to `layout`. The key nextn_predict_layers is not written: other
// engines would take the last layer for the draft block, and this one looks at tensors.
void add_metadata(gguf::Layout& layout, const ModelConfig& config, const VocabData& vocab,
                  const MetadataOptions& options);

}  // namespace ds4
