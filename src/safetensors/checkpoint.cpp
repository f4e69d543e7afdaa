#include "safetensors/checkpoint.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace ds4::safetensors {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxIndexBytes = 64 << 20;

using WeightMap = std::map<std::string, std::string>;  // tensor name -> shard file

tl::unexpected<Error> corrupt(std::string_view file, std::string_view message) {
  return fail(ErrorCode::kCorrupt, fmt::format("{}: {}", file, message));
}

// Reads only {"weight_map": {"name": "file"}} and passes over what else stands at the top; nesting
// deeper than the format has ends the parse.
class IndexEvents {
 public:
  WeightMap weights;
  std::string problem;

  bool null() { return scalar(); }
  bool boolean(bool) { return scalar(); }
  bool number_integer(int64_t) { return scalar(); }
  bool number_unsigned(uint64_t) { return scalar(); }
  bool number_float(double, const std::string&) { return scalar(); }
  bool binary(nlohmann::json::binary_t&) { return scalar(); }
  bool string(std::string& value) {
    if (depth_ != 2 || top_ != "weight_map") return true;
    if (!weights.emplace(name_, std::move(value)).second) return stop(name_ + " appears twice");
    return true;
  }
  bool key(std::string& text) {
    (depth_ == 1 ? top_ : name_) = std::move(text);
    return true;
  }
  bool start_object(size_t) { return enter(); }
  bool end_object() { return leave(); }
  bool start_array(size_t) { return enter(); }
  bool end_array() { return leave(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) {
    return stop(fmt::format("not valid JSON at byte {}", position));
  }

 private:
  bool scalar() { return depth_ != 2 || top_ != "weight_map" || stop("a file name expected"); }
  bool enter() { return ++depth_ <= 4 || stop("nested too deeply"); }
  bool leave() {
    --depth_;
    return true;
  }
  bool stop(std::string why) {
    problem = std::move(why);
    return false;
  }

  int depth_ = 0;
  std::string top_;
  std::string name_;
};

Result<WeightMap> read_index(const std::string& path) {
  DS4_TRY(const MappedFile file, MappedFile::open(path));
  if (file.bytes().size() > kMaxIndexBytes) return corrupt(path, "larger than 64 MiB");
  const auto* text = reinterpret_cast<const char*>(file.bytes().data());
  IndexEvents events;
  if (!nlohmann::json::sax_parse(text, text + file.bytes().size(), &events)) {
    return corrupt(path, events.problem);
  }
  if (events.weights.empty()) return corrupt(path, "no weight_map with tensors in it");
  return std::move(events.weights);
}

}  // namespace

Result<void> Checkpoint::add_file(const std::string& path) {
  DS4_TRY(MappedFile file, MappedFile::open(path));
  DS4_TRY(std::vector<TensorInfo> tensors, parse_file(file.bytes(), path));
  for (TensorInfo& tensor : tensors) {
    if (!index_.emplace(tensor.name, tensors_.size()).second) {
      return corrupt(path, fmt::format("tensor {} is in another shard too", tensor.name));
    }
    tensors_.push_back(std::move(tensor));
  }
  files_.push_back(std::move(file));
  return {};
}

Result<void> Checkpoint::add_shards(const std::string& folder, const std::string& index_path) {
  DS4_TRY(const WeightMap weights, read_index(index_path));
  std::set<std::string> shards;
  for (const auto& [name, shard] : weights) {
    // A name with a folder in it could point anywhere on the machine.
    if (shard.empty() || shard.find('/') != std::string::npos) {
      return corrupt(index_path,
                     fmt::format("tensor {}: a file name expected, found \"{}\"", name, shard));
    }
    shards.insert(shard);
  }
  std::map<std::string, std::pair<size_t, size_t>> range;  // the shard's tensors in tensors_
  for (const std::string& shard : shards) {
    const size_t begin = tensors_.size();
    if (auto added = add_file((fs::path(folder) / shard).string()); !added) {
      if (added.error().code != ErrorCode::kNotFound) return added;
      return fail(ErrorCode::kNotFound,
                  fmt::format("{}: shard {} is missing in {}", index_path, shard, folder));
    }
    range[shard] = {begin, tensors_.size()};
  }
  for (const auto& [name, shard] : weights) {
    const auto found = index_.find(name);
    const auto [begin, end] = range[shard];
    if (found == index_.end() || found->second < begin || found->second >= end) {
      return corrupt(index_path, fmt::format("tensor {} is not in shard {}", name, shard));
    }
  }
  return {};
}

Result<Checkpoint> Checkpoint::open(const std::string& path) {
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    DS4_TRY_VOID(checkpoint.add_file(path));
    return checkpoint;
  }
  const std::string index = (fs::path(path) / "model.safetensors.index.json").string();
  const std::string single = (fs::path(path) / "model.safetensors").string();
  if (fs::exists(index, ignored)) {
    DS4_TRY_VOID(checkpoint.add_shards(path, index));
  } else if (fs::exists(single, ignored)) {
    DS4_TRY_VOID(checkpoint.add_file(single));
  } else {
    return fail(
        ErrorCode::kNotFound,
        fmt::format("{}: neither model.safetensors.index.json nor model.safetensors is there",
                    path));
  }
  return checkpoint;
}

const TensorInfo* Checkpoint::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

int64_t Checkpoint::file_bytes() const {
  int64_t n = 0;
  for (const MappedFile& file : files_) n += static_cast<int64_t>(file.bytes().size());
  return n;
}

}  // namespace ds4::safetensors
