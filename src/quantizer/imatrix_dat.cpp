// llama.cpp's first form, little-endian:
//   i32 n_entries
//   n_entries x  i32 name_bytes | name | i32 ncall | i32 nval | nval x f32
//   i32 n_chunks | i32 dataset_bytes | dataset            (may be missing)
// Values are (sum / count) * ncall; ds4 writes ncall = 1.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/file_writer.h"
#include "quantizer/imatrix_files.h"

namespace ds4 {
namespace {

constexpr int64_t kNameBytesMax = 4096;

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  size_t position() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }

  Result<int64_t> i32(const std::string& what) {
    int32_t value = 0;
    DS4_TRY_VOID(need(sizeof(value), what));
    std::memcpy(&value, bytes_.data() + at_, sizeof(value));
    at_ += sizeof(value);
    return int64_t{value};
  }

  // An i32 that counts things of `each` bytes which follow.
  Result<int64_t> count(const std::string& what, int64_t lowest, int64_t highest, size_t each) {
    DS4_TRY(const int64_t n, i32(what));
    if (n < lowest || n > highest) {
      return corrupt(fmt::format("{}: expected {} .. {}, found {}", what, lowest, highest, n));
    }
    DS4_TRY_VOID(need(static_cast<size_t>(n) * each, what));
    return n;
  }

  std::string text(int64_t n) {
    std::string out(reinterpret_cast<const char*>(bytes_.data()) + at_, static_cast<size_t>(n));
    at_ += static_cast<size_t>(n);
    return out;
  }
  std::vector<float> floats(int64_t n) {
    std::vector<float> out(static_cast<size_t>(n));
    std::memcpy(out.data(), bytes_.data() + at_, out.size() * sizeof(float));
    at_ += out.size() * sizeof(float);
    return out;
  }

  tl::unexpected<Error> corrupt(const std::string& what) const {
    return fail(ErrorCode::kCorrupt,
                fmt::format("{}: byte {}: {} (is this an importance matrix?)", name_, at_, what));
  }

 private:
  Result<void> need(size_t n, const std::string& what) const {
    if (n <= left()) return {};
    return fail(ErrorCode::kCorrupt,
                fmt::format("{}: truncated: {} needs {} bytes at byte {}, the file ends at {}",
                            name_, what, n, at_, bytes_.size()));
  }

  std::span<const std::byte> bytes_;
  const std::string& name_;
  size_t at_ = 0;
};

// One entry; its values as means.
Result<void> read_entry(Reader& in, int64_t index, Imatrix& imatrix) {
  const std::string label = fmt::format("entry {}", index);
  DS4_TRY(const int64_t name_bytes, in.count(label + " name length", 1, kNameBytesMax, 1));
  const std::string name = in.text(name_bytes);
  DS4_TRY(const int64_t ncall, in.i32(label + " calls"));
  DS4_TRY(const int64_t nval,
          in.count(label + " value count", 1, std::numeric_limits<int32_t>::max(), sizeof(float)));
  ImatrixEntry entry{in.floats(nval), {}};
  for (size_t i = 0; i < entry.means.size(); ++i) {
    float& value = entry.means[i];
    if (ncall > 0) value /= static_cast<float>(ncall);
    if (std::isfinite(value) && value >= 0) continue;
    return in.corrupt(
        fmt::format("entry {} value {}: expected a finite value of at least 0, found "
                    "{}",
                    index, i, value));
  }
  if (!imatrix.entries.emplace(name, std::move(entry)).second) {
    return in.corrupt(fmt::format("entry {}: the name of an earlier entry", index));
  }
  return {};
}

void put_i32(int64_t value, std::vector<std::byte>& out) {
  const auto v = static_cast<int32_t>(value);
  const auto* bytes = reinterpret_cast<const std::byte*>(&v);
  out.insert(out.end(), bytes, bytes + sizeof(v));
}

void put_text(const std::string& text, std::vector<std::byte>& out) {
  put_i32(static_cast<int64_t>(text.size()), out);
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  out.insert(out.end(), bytes, bytes + text.size());
}

// Layers in number order, and gate, up, down within one: what people compare by eye.
std::vector<const std::pair<const std::string, ImatrixEntry>*> in_layer_order(
    const Imatrix& imatrix) {
  const auto key = [](const std::string& name) {
    const size_t digits = name.find_first_of("0123456789");
    const int64_t layer =
        name.starts_with("blk.") && digits == 4 ? std::atoll(name.c_str() + 4) : 1 << 30;
    int role = 3;
    for (int i = 0; i < 3; ++i) {
      if (name.find(std::array{"gate_exps", "up_exps", "down_exps"}[static_cast<size_t>(i)]) !=
          std::string::npos) {
        role = i;
      }
    }
    return std::tuple(layer, role, name);
  };
  std::vector<const std::pair<const std::string, ImatrixEntry>*> order;
  for (const auto& entry : imatrix.entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(),
            [&](const auto* a, const auto* b) { return key(a->first) < key(b->first); });
  return order;
}

}  // namespace

Result<Imatrix> parse_imatrix_dat(std::span<const std::byte> bytes, const std::string& name) {
  Reader in(bytes, name);
  Imatrix imatrix;
  // An entry has at least a name length, a name of one byte, two counts and a value.
  DS4_TRY(const int64_t n_entries,
          in.count("number of entries", 1, std::numeric_limits<int32_t>::max(), 17));
  for (int64_t i = 0; i < n_entries; ++i) DS4_TRY_VOID(read_entry(in, i, imatrix));
  if (in.left() == 0) return imatrix;
  DS4_TRY(imatrix.n_chunks,
          in.count("number of chunks", 0, std::numeric_limits<int32_t>::max(), 0));
  if (in.left() == 0) return imatrix;
  DS4_TRY(const int64_t dataset_bytes, in.count("data set name length", 0, kNameBytesMax, 1));
  if (dataset_bytes > 0) imatrix.datasets.push_back(in.text(dataset_bytes));
  return imatrix;
}

Result<void> write_imatrix_dat(const Imatrix& imatrix, const std::string& path, bool overwrite) {
  DS4_TRY(FileWriter file, FileWriter::create(path, overwrite));
  std::vector<std::byte> out;
  put_i32(static_cast<int64_t>(imatrix.entries.size()), out);
  for (const auto* entry : in_layer_order(imatrix)) {
    const std::vector<float>& means = entry->second.means;
    put_text(entry->first, out);
    put_i32(1, out);
    put_i32(static_cast<int64_t>(means.size()), out);
    DS4_TRY_VOID(file.write(out));
    out.clear();
    DS4_TRY_VOID(file.write(std::as_bytes(std::span(means))));
  }
  put_i32(imatrix.n_chunks, out);
  put_text(imatrix.datasets.empty() ? std::string() : imatrix.datasets.front(), out);
  DS4_TRY_VOID(file.write(out));
  return file.commit();
}

}  // namespace ds4
