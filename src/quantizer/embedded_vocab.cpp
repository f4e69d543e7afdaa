#include "quantizer/embedded_vocab.h"

#include <cstddef>
#include <span>
#include <string_view>

// The files become read-only data as they are; DS4_MODELS_DIR comes from CMake, which also rebuilds
// this file when one of them changes.
#define DS4_EMBED(symbol, path)            \
  asm(".pushsection .rodata\n"             \
      ".balign 16\n"                       \
      ".global " #symbol "\n" #symbol      \
      ":\n"                                \
      ".incbin \"" DS4_MODELS_DIR "/" path \
      "\"\n"                               \
      ".global " #symbol "_end\n" #symbol  \
      "_end:\n"                            \
      ".byte 0\n"                          \
      ".popsection\n");                    \
  extern "C" const std::byte symbol[];     \
  extern "C" const std::byte symbol##_end[]

DS4_EMBED(ds4_embedded_v4_base, "vocab/deepseek_v3_tokenizer.json.gz");
DS4_EMBED(ds4_embedded_v4_added, "vocab/v4_added_tokens.json.gz");
DS4_EMBED(ds4_embedded_nano, "nano/tokenizer.json");

namespace ds4 {

Result<VocabData> embedded_vocab(const ModelConfig& config) {
  if (config.vocab_size == nano_config().vocab_size) {
    return vocab_from_hf_json(
        std::string_view(reinterpret_cast<const char*>(ds4_embedded_nano),
                         static_cast<size_t>(ds4_embedded_nano_end - ds4_embedded_nano)));
  }
  return v4_vocab_from_gzip(std::span(ds4_embedded_v4_base, ds4_embedded_v4_base_end),
                            std::span(ds4_embedded_v4_added, ds4_embedded_v4_added_end));
}

}  // namespace ds4
