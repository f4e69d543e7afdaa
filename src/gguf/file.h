#pragma once
// A GGUF file opened for reading: header, metadata and tensor directory are parsed and checked,
// tensor data stays where it is. What is checked, in this order: the file exists and is GGUF
// version 3 (text files, web pages and Git LFS pointers are named as such); counts, lengths and
// nesting fit the file; value types, dimensions and block sizes make sense; names are unique; every
// tensor of known type lies inside the file, aligned and not over another; the file is not one
// piece of a split model.
//
// Hostile bytes cost at most memory in proportion to the file: nothing is reserved from a count
// that the file's size does not bear out. Errors carry the file name and a byte position.
//
// Immutable after open; const access is thread-safe. Views point into the mapping.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "gguf/value.h"
#include "tensor/tensor.h"

namespace ds4::gguf {

struct KeyValue {
  std::string_view key;
  Value value;
};

struct TensorInfo {
  std::string_view name;
  uint32_t type_id = 0;
  std::vector<int64_t> dims;     // as in the file: the row length first
  int64_t offset = 0;            // from the start of the file
  std::optional<int64_t> bytes;  // without padding; empty for a type of unknown geometry
  const std::byte* data = nullptr;

  // Empty for a type the engine does not compute with.
  std::optional<DType> dtype() const { return engine_dtype(type_id); }
  // Outermost dimension first; dtype() must not be empty (checked).
  ConstTensor view() const;
};

class File {
 public:
  // Errors: those of MappedFile::open; kCorrupt for damaged or truncated bytes, kUnsupported for
  // another version or a split file, kInvalidArgument for something that is not GGUF at all.
  static Result<File> open(const std::string& path);

  // The same over bytes in memory; `name` stands for the path in messages. `bytes` must outlive the
  // File and be aligned to 8 if typed rows of its tensors are read.
  static Result<File> parse(std::span<const std::byte> bytes, std::string name);

  const std::string& path() const { return path_; }
  int64_t file_bytes() const { return static_cast<int64_t>(bytes_.size()); }
  int64_t alignment() const { return alignment_; }
  // Where tensor data begins; everything before is header, metadata and directory.
  int64_t data_start() const { return data_start_; }

  const std::vector<KeyValue>& metadata() const { return metadata_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }

  // Null when there is no such key or tensor.
  const Value* find(std::string_view key) const;
  const TensorInfo* find_tensor(std::string_view name) const;

 private:
  friend class Parser;
  File() = default;

  MappedFile mapping_;
  std::span<const std::byte> bytes_;
  std::string path_;
  int64_t alignment_ = kDefaultAlignment;
  int64_t data_start_ = 0;
  std::vector<KeyValue> metadata_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string_view, size_t> key_index_;
  std::unordered_map<std::string_view, size_t> tensor_index_;
};

}  // namespace ds4::gguf
