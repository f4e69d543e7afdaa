// llama.cpp's newer form, a GGUF file: general.type "imatrix", and for each weight tensor two F32
// tensors, NAME.in_sum2 [columns, n_matrices] and NAME.counts [1, n_matrices]. Means are in_sum2 /
// counts. NAME.in_sum, which some writers add, is not used.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gguf/file.h"
#include "gguf/writer.h"
#include "quantizer/imatrix_files.h"

namespace ds4 {
namespace {

constexpr std::string_view kSums = ".in_sum2";
constexpr std::string_view kCounts = ".counts";

tl::unexpected<Error> corrupt(const gguf::File& file, std::string_view tensor,
                              const std::string& what) {
  return fail(ErrorCode::kCorrupt, fmt::format("{}: {}: {}", file.path(), tensor, what));
}

Result<ConstTensor> f32_matrix(const gguf::File& file, const gguf::TensorInfo& info) {
  if (info.dtype() != DType::kF32 || info.dims.size() > 2) {
    return corrupt(file, info.name, "expected an F32 matrix");
  }
  const ConstTensor view = info.view();
  return ConstTensor(view.data(), DType::kF32, {view.n_rows(), view.n_cols()});
}

Result<void> check_values(const gguf::File& file, std::string_view name, const ConstTensor& t) {
  const float* values = t.row<float>(0);
  for (int64_t i = 0; i < t.shape().n_elements(); ++i) {
    if (std::isfinite(values[i]) && values[i] >= 0) continue;
    return corrupt(
        file, name,
        fmt::format("value {}: expected a finite value of at least 0, found {}", i, values[i]));
  }
  return {};
}

Result<ImatrixEntry> read_entry(const gguf::File& file, const gguf::TensorInfo& sums_info,
                                const std::string& name) {
  const gguf::TensorInfo* counts_info = file.find_tensor(name + std::string(kCounts));
  if (counts_info == nullptr) return corrupt(file, name, "there are sums but no counts");
  DS4_TRY(const ConstTensor sums, f32_matrix(file, sums_info));
  DS4_TRY(const ConstTensor counts, f32_matrix(file, *counts_info));
  const int64_t n_matrices = sums.n_rows(), columns = sums.n_cols();
  if (counts.shape().n_elements() != n_matrices) {
    return corrupt(file, counts_info->name,
                   fmt::format("expected {} values, one for each matrix, found {}", n_matrices,
                               counts.shape().n_elements()));
  }
  DS4_TRY_VOID(check_values(file, sums_info.name, sums));
  DS4_TRY_VOID(check_values(file, counts_info->name, counts));
  ImatrixEntry entry;
  for (int64_t m = 0; m < n_matrices; ++m) {
    const float count = counts.row<float>(0)[m];
    entry.counts.push_back(std::llround(std::min(count, 1e18f)));
    for (int64_t c = 0; c < columns; ++c) {
      entry.means.push_back(count > 0 ? sums.row<float>(m)[c] / count : 1.0f);
    }
  }
  return entry;
}

Result<void> check_type(const gguf::File& file) {
  const gguf::Value* type = file.find("general.type");
  const auto text = type == nullptr ? std::nullopt : type->as_string();
  if (text == "imatrix") return {};
  return fail(ErrorCode::kUnsupported,
              fmt::format("{}: general.type: expected imatrix, found {}; this is not an importance "
                          "matrix",
                          file.path(), text.value_or("nothing")));
}

int64_t int_key(const gguf::File& file, std::string_view key) {
  const gguf::Value* value = file.find(key);
  return value == nullptr ? 0 : std::max<int64_t>(0, value->as_int().value_or(0));
}

}  // namespace

Result<Imatrix> parse_imatrix_gguf(std::span<const std::byte> bytes, const std::string& name) {
  DS4_TRY(const gguf::File file, gguf::File::parse(bytes, name));
  DS4_TRY_VOID(check_type(file));
  Imatrix imatrix;
  for (const gguf::TensorInfo& info : file.tensors()) {
    if (!info.name.ends_with(kSums)) continue;
    const std::string weight(info.name.substr(0, info.name.size() - kSums.size()));
    DS4_TRY(ImatrixEntry entry, read_entry(file, info, weight));
    imatrix.entries.emplace(weight, std::move(entry));
  }
  if (imatrix.entries.empty()) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("{}: expected tensors named NAME{}, found none", name, kSums));
  }
  imatrix.n_chunks = int_key(file, "imatrix.chunk_count");
  imatrix.chunk_size = int_key(file, "imatrix.chunk_size");
  const gguf::Value* datasets = file.find("imatrix.datasets");
  if (const auto names = datasets == nullptr ? std::nullopt : datasets->as_strings()) {
    imatrix.datasets.assign(names->begin(), names->end());
  }
  return imatrix;
}

Result<void> write_imatrix_gguf(const Imatrix& imatrix, const std::string& path, bool overwrite) {
  gguf::Layout layout;
  layout.add_string("general.type", "imatrix");
  layout.add_strings("imatrix.datasets", imatrix.datasets);
  layout.add_u32("imatrix.chunk_count", static_cast<uint32_t>(imatrix.n_chunks));
  layout.add_u32("imatrix.chunk_size", static_cast<uint32_t>(imatrix.chunk_size));
  for (const auto& [name, entry] : imatrix.entries) {
    const auto n_matrices = static_cast<int64_t>(entry.counts.size());
    if (n_matrices == 0) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("{}: the counts of {} are unknown (they come from a .dat file), so "
                              "only .dat can be written",
                              path, name));
    }
    const int64_t columns = static_cast<int64_t>(entry.means.size()) / n_matrices;
    layout.add_tensor(name + std::string(kSums), DType::kF32, {n_matrices, columns});
    layout.add_tensor(name + std::string(kCounts), DType::kF32, {n_matrices, 1});
  }
  DS4_TRY(gguf::Writer writer, gguf::Writer::create(layout, path, overwrite));
  int index = 0;
  for (const auto& [name, entry] : imatrix.entries) {
    const size_t columns = entry.means.size() / entry.counts.size();
    std::vector<float> sums(entry.means.size()), counts;
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i] = static_cast<float>(static_cast<double>(entry.means[i]) *
                                   static_cast<double>(entry.counts[i / columns]));
    }
    for (const int64_t n : entry.counts) counts.push_back(static_cast<float>(n));
    DS4_TRY_VOID(writer.write(index++, 0, std::as_bytes(std::span(sums))));
    DS4_TRY_VOID(writer.write(index++, 0, std::as_bytes(std::span(counts))));
  }
  return writer.finish();
}

}  // namespace ds4
