#pragma once
// A checkpoint in safetensors form: one file, or a folder with model.safetensors.index.json and the
// shards it names, or a folder with a single model.safetensors. Data stays in the mappings.
//
// Immutable after open; const access is thread-safe. Views live as long as the Checkpoint.
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "safetensors/header.h"

namespace ds4::safetensors {

class Checkpoint {
 public:
  // `path` is a folder or a .safetensors file.
  // Errors: kNotFound for a missing index or shard (named); kCorrupt for damaged shards, an index
  // that is not JSON, or a tensor that the index places in a shard without it.
  static Result<Checkpoint> open(const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  // Null when there is none of that name.
  const TensorInfo* find(std::string_view name) const;
  // Bytes of all shards.
  int64_t file_bytes() const;

 private:
  Result<void> add_file(const std::string& path);
  Result<void> add_shards(const std::string& folder, const std::string& index_path);

  std::string path_;
  std::vector<MappedFile> files_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string, size_t> index_;
};

}  // namespace ds4::safetensors
