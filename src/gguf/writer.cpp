#include "gguf/writer.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace ds4::gguf {
namespace {

template <typename T>
void put(std::vector<std::byte>& out, T value) {
  const size_t at = out.size();
  out.resize(at + sizeof(T));
  std::memcpy(out.data() + at, &value, sizeof(T));
}

void put_bytes(std::vector<std::byte>& out, const void* data, size_t n) {
  const auto* bytes = static_cast<const std::byte*>(data);
  out.insert(out.end(), bytes, bytes + n);
}

void put_string(std::vector<std::byte>& out, std::string_view text) {
  put<uint64_t>(out, text.size());
  put_bytes(out, text.data(), text.size());
}

void put_array_head(std::vector<std::byte>& out, ValueType element, size_t count) {
  put(out, static_cast<uint32_t>(element));
  put<uint64_t>(out, count);
}

}  // namespace

Layout::Layout(int64_t alignment) : alignment_(alignment) {
  DS4_CHECK(alignment >= 8 && (alignment & (alignment - 1)) == 0);
  if (alignment != kDefaultAlignment)
    add_u32("general.alignment", static_cast<uint32_t>(alignment));
}

void Layout::begin_key(std::string_view key, ValueType type) {
  DS4_CHECK(std::find(keys_.begin(), keys_.end(), key) == keys_.end(), "a key is added once");
  keys_.emplace_back(key);
  put_string(metadata_, key);
  put(metadata_, static_cast<uint32_t>(type));
}

void Layout::add_u32(std::string_view key, uint32_t value) {
  begin_key(key, ValueType::kU32);
  put(metadata_, value);
}

void Layout::add_u64(std::string_view key, uint64_t value) {
  begin_key(key, ValueType::kU64);
  put(metadata_, value);
}

void Layout::add_f32(std::string_view key, float value) {
  begin_key(key, ValueType::kF32);
  put(metadata_, value);
}

void Layout::add_bool(std::string_view key, bool value) {
  begin_key(key, ValueType::kBool);
  put<uint8_t>(metadata_, value ? 1 : 0);
}

void Layout::add_string(std::string_view key, std::string_view value) {
  begin_key(key, ValueType::kString);
  put_string(metadata_, value);
}

void Layout::add_i32s(std::string_view key, std::span<const int32_t> values) {
  begin_key(key, ValueType::kArray);
  put_array_head(metadata_, ValueType::kI32, values.size());
  put_bytes(metadata_, values.data(), values.size_bytes());
}

void Layout::add_f32s(std::string_view key, std::span<const float> values) {
  begin_key(key, ValueType::kArray);
  put_array_head(metadata_, ValueType::kF32, values.size());
  put_bytes(metadata_, values.data(), values.size_bytes());
}

void Layout::add_strings(std::string_view key, std::span<const std::string> values) {
  begin_key(key, ValueType::kArray);
  put_array_head(metadata_, ValueType::kString, values.size());
  for (const std::string& value : values) put_string(metadata_, value);
}

void Layout::add_value(std::string_view key, ValueType type, std::span<const std::byte> payload) {
  begin_key(key, type);
  put_bytes(metadata_, payload.data(), payload.size());
}

int Layout::add_tensor(std::string_view name, DType type, const Shape& shape) {
  DS4_CHECK(shape.rank() >= 1);
  for (const Entry& entry : tensors_) DS4_CHECK(entry.name != name, "a tensor is added once");
  Entry entry{std::string(name), type, shape, shape.n_rows() * row_bytes(type, shape.n_cols()),
              data_bytes_};
  data_bytes_ += padded(entry.bytes);
  directory_bytes_ += 8 + static_cast<int64_t>(name.size()) + 4 + 8 * shape.rank() + 4 + 8;
  tensors_.push_back(std::move(entry));
  return n_tensors() - 1;
}

const std::string& Layout::tensor_name(int tensor) const {
  return tensors_[static_cast<size_t>(tensor)].name;
}

DType Layout::tensor_type(int tensor) const { return tensors_[static_cast<size_t>(tensor)].type; }

int64_t Layout::tensor_bytes(int tensor) const {
  return tensors_[static_cast<size_t>(tensor)].bytes;
}

int64_t Layout::tensor_bytes() const {
  int64_t n = 0;
  for (const Entry& entry : tensors_) n += entry.bytes;
  return n;
}

int64_t Layout::tensor_offset(int tensor) const {
  return data_start() + tensors_[static_cast<size_t>(tensor)].offset;
}

int64_t Layout::data_start() const {
  return padded(kHeaderBytes + static_cast<int64_t>(metadata_.size()) + directory_bytes_);
}

int64_t Layout::file_bytes() const { return data_start() + data_bytes_; }

std::vector<std::byte> Layout::header() const {
  std::vector<std::byte> out;
  put(out, kMagic);
  put(out, kVersion);
  put<uint64_t>(out, tensors_.size());
  put<uint64_t>(out, keys_.size());
  put_bytes(out, metadata_.data(), metadata_.size());
  for (const Entry& entry : tensors_) {
    put_string(out, entry.name);
    put(out, static_cast<uint32_t>(entry.shape.rank()));
    for (int d = entry.shape.rank() - 1; d >= 0; --d) {
      put(out, static_cast<uint64_t>(entry.shape[d]));
    }
    put(out, static_cast<uint32_t>(entry.type));
    put(out, static_cast<uint64_t>(entry.offset));
  }
  out.resize(static_cast<size_t>(data_start()));
  return out;
}

// Bytes received per tensor, to notice a caller that forgot a part.
struct Writer::Progress {
  explicit Progress(int n) : written(static_cast<size_t>(n)) {}
  std::vector<std::atomic<int64_t>> written;
};

Writer::Writer(Layout layout, FileWriter file)
    : layout_(std::move(layout)),
      file_(std::move(file)),
      progress_(std::make_unique<Progress>(layout_.n_tensors())) {}
Writer::Writer(Writer&&) noexcept = default;
Writer& Writer::operator=(Writer&&) noexcept = default;
Writer::~Writer() = default;

Result<Writer> Writer::create(Layout layout, const std::string& path, bool overwrite) {
  DS4_TRY(FileWriter file, FileWriter::create(path, overwrite));
  DS4_TRY_VOID(file.write(layout.header()));
  return Writer(std::move(layout), std::move(file));
}

Result<void> Writer::write(int tensor, int64_t offset, std::span<const std::byte> bytes) {
  const auto n = static_cast<int64_t>(bytes.size());
  DS4_CHECK(tensor >= 0 && tensor < layout_.n_tensors() && offset >= 0 &&
            n <= layout_.tensor_bytes(tensor) - offset);
  DS4_TRY_VOID(file_.write_at(layout_.tensor_offset(tensor) + offset, bytes));
  progress_->written[static_cast<size_t>(tensor)] += n;
  return {};
}

Result<void> Writer::finish() {
  int64_t end = layout_.data_start();
  for (int i = 0; i < layout_.n_tensors(); ++i) {
    DS4_CHECK(progress_->written[static_cast<size_t>(i)] == layout_.tensor_bytes(i),
              "a tensor was not written whole");
    end = layout_.tensor_offset(i) + layout_.tensor_bytes(i);
  }
  // Gaps between tensors were never written and read as zeros; the last one would be missing.
  const std::vector<std::byte> padding(static_cast<size_t>(layout_.file_bytes() - end));
  DS4_TRY_VOID(file_.write_at(end, padding));
  return file_.commit();
}

}  // namespace ds4::gguf
