#include "quantizer/imatrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/mapped_file.h"
#include "quantizer/imatrix_files.h"

namespace ds4 {
namespace {

constexpr std::string_view kGgufMagic = "GGUF";

bool is_gguf(std::span<const std::byte> bytes) {
  return bytes.size() >= kGgufMagic.size() &&
         std::equal(kGgufMagic.begin(), kGgufMagic.end(), bytes.begin(),
                    [](char c, std::byte b) { return std::byte(c) == b; });
}

// Names whose rows are one expert's, in the order they are tried.
std::vector<std::string> single_names(std::string_view name, std::string_view matrix_name,
                                      int64_t matrix) {
  return {fmt::format("{}.expert.{}", name, matrix), fmt::format("{}.expert_{}", name, matrix),
          std::string(matrix_name)};
}

tl::unexpected<Error> wrong_length(std::string_view name, std::string_view what, int64_t expected,
                                   size_t found) {
  return fail(ErrorCode::kUnsupported,
              fmt::format("importance of {}: expected {} values ({}), found {}", name, expected,
                          what, found));
}

void merge_counted(ImatrixEntry& into, const ImatrixEntry& from) {
  const size_t columns = into.means.size() / into.counts.size();
  for (size_t m = 0; m < into.counts.size(); ++m) {
    const auto a = static_cast<double>(into.counts[m]), b = static_cast<double>(from.counts[m]);
    into.counts[m] += from.counts[m];
    if (a + b == 0) continue;
    for (size_t i = m * columns; i < (m + 1) * columns; ++i) {
      // Ones stand in a matrix never seen: with a weight of zero they count for nothing.
      into.means[i] = static_cast<float>((a * into.means[i] + b * from.means[i]) / (a + b));
    }
  }
}

void merge_uncounted(ImatrixEntry& into, const ImatrixEntry& from, double a, double b) {
  into.counts.clear();
  for (size_t i = 0; i < into.means.size(); ++i) {
    const float x = into.means[i], y = from.means[i];
    if (y == 1.0f) continue;
    into.means[i] = x == 1.0f ? y : static_cast<float>((a * x + b * y) / (a + b));
  }
}

}  // namespace

Result<Imatrix> Imatrix::parse(std::span<const std::byte> bytes, const std::string& name) {
  return is_gguf(bytes) ? parse_imatrix_gguf(bytes, name) : parse_imatrix_dat(bytes, name);
}

Result<Imatrix> Imatrix::read(const std::string& path) {
  DS4_TRY(const MappedFile file, MappedFile::open(path));
  return parse(file.bytes(), path);
}

Result<void> Imatrix::write(const std::string& path, bool overwrite) const {
  return path.ends_with(".gguf") ? write_imatrix_gguf(*this, path, overwrite)
                                 : write_imatrix_dat(*this, path, overwrite);
}

Result<void> Imatrix::merge(const Imatrix& other) {
  for (const auto& [name, theirs] : other.entries) {
    const auto ours = entries.find(name);
    if (ours == entries.end() || ours->second.means.size() == theirs.means.size()) continue;
    return wrong_length(name, "as in the first file",
                        static_cast<int64_t>(ours->second.means.size()), theirs.means.size());
  }
  const auto chunks = [](const Imatrix& m) {
    return static_cast<double>(std::max<int64_t>(1, m.n_chunks));
  };
  for (const auto& [name, theirs] : other.entries) {
    const auto [ours, is_new] = entries.try_emplace(name, theirs);
    if (is_new) continue;
    ImatrixEntry& entry = ours->second;
    if (!entry.counts.empty() && entry.counts.size() == theirs.counts.size()) {
      merge_counted(entry, theirs);
    } else {
      merge_uncounted(entry, theirs, chunks(*this), chunks(other));
    }
  }
  n_chunks += other.n_chunks;
  if (chunk_size != other.chunk_size) chunk_size = 0;
  for (const std::string& dataset : other.datasets) {
    if (std::find(datasets.begin(), datasets.end(), dataset) == datasets.end()) {
      datasets.push_back(dataset);
    }
  }
  return {};
}

Result<std::span<const float>> Imatrix::find(std::string_view name, std::string_view matrix_name,
                                             int64_t matrix, int64_t n_matrices,
                                             int64_t columns) const {
  DS4_CHECK(matrix >= 0 && matrix < n_matrices);
  const std::vector<std::string> singles = single_names(name, matrix_name, matrix);
  const auto single = [&](const std::string& key) -> Result<std::span<const float>> {
    const auto found = entries.find(key);
    if (found == entries.end()) return std::span<const float>();
    const auto& means = found->second.means;
    if (static_cast<int64_t>(means.size()) == columns) return std::span(means);
    return wrong_length(key, "columns of one expert", columns, means.size());
  };
  for (const std::string& key : {singles[0], singles[1]}) {
    DS4_TRY(const std::span<const float> found, single(key));
    if (!found.empty()) return found;
  }
  const auto stack = entries.find(name);
  if (stack == entries.end()) return single(singles[2]);
  const auto& means = stack->second.means;
  if (static_cast<int64_t>(means.size()) != n_matrices * columns) {
    return wrong_length(name, fmt::format("{} x {} columns", n_matrices, columns),
                        n_matrices * columns, means.size());
  }
  return std::span(means).subspan(static_cast<size_t>(matrix * columns),
                                  static_cast<size_t>(columns));
}

bool Imatrix::was_seen(std::span<const float> means) {
  return std::any_of(means.begin(), means.end(), [](float v) { return v != 1.0f; });
}

}  // namespace ds4
