#pragma once
// The header of a right Nano file, and edits of it that an input describes. Random bytes never get
// past the first missing key; an edited header gets as far as the edits let it, so a fuzzer can
// look behind every check of the config reader, the vocabulary and the binding of weights.
//
// Tensor data is not stored: it is zeros, mapped and never written, behind the header. 57 MB of
// model cost a few pages.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tests/fuzz/input.h"

namespace ds4::fuzz {

// What a GGUF header says, field by field, with nothing checked.
struct EditableHeader {
  struct Key {
    std::string name;
    uint32_t type = 0;
    std::string payload;
  };
  struct Tensor {
    std::string name;
    std::vector<uint64_t> dims;
    uint32_t type = 0;
    uint64_t offset = 0;
  };
  std::vector<Key> keys;
  std::vector<Tensor> tensors;
  uint64_t n_extra_keys = 0;     // added to the counts, which then lie
  uint64_t n_extra_tensors = 0;  // (wrapping around gives smaller ones)

  std::string bytes() const;
};

// Nano with its draft block and a vocabulary that makes a working tokenizer.
const EditableHeader& nano_header();

// Applies edits until `input` ends. Each is one byte of what to do and the numbers it needs; every
// number is taken modulo what there is, so that no edit is wasted.
void edit(EditableHeader& header, Input& input);

// The file: `header` and zeros up to `file_bytes`. Valid until the next call; single-thread.
std::span<const std::byte> with_zero_data(const std::string& header, size_t file_bytes);

// Bytes of the whole file whose header nano_header() is.
size_t nano_file_bytes();

}  // namespace ds4::fuzz
