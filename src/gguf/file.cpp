#include "gguf/file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/log.h"
#include "gguf/foreign.h"

namespace ds4::gguf {
namespace {

constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();
// Below this no GGUF with content can exist.
constexpr size_t kMinFileBytes = 32;

// "split.count" above one marks a shard of a model cut into several files.
Result<void> refuse_split(const File& file) {
  const Value* count = file.find("split.count");
  const auto n = count == nullptr ? std::nullopt : count->as_int();
  if (!n || *n <= 1) return {};
  const Value* no = file.find("split.no");
  const int64_t index = no == nullptr ? 0 : no->as_int().value_or(0);
  return fail(
      ErrorCode::kUnsupported,
      fmt::format("piece {} of {} of a split GGUF; split files are not supported: merge first",
                  index + 1, *n));
}

// Keys that decide what the model is: a second value would make the file mean two things.
bool must_be_unique(std::string_view key) {
  return key.starts_with("deepseek4.") || key.starts_with("tokenizer.") ||
         key == "general.architecture" || key == "general.alignment";
}

}  // namespace

ConstTensor TensorInfo::view() const {
  const auto type = dtype();
  DS4_CHECK(type.has_value());
  Shape shape;
  for (auto d = dims.rbegin(); d != dims.rend(); ++d) shape.append(*d);
  return ConstTensor(data, *type, shape);
}

// Walks the bytes once, front to back. Every length is compared with what is left, never added to a
// position first, so no count can overflow its way past a check.
class Parser {
 public:
  Parser(std::span<const std::byte> bytes, File& file) : bytes_(bytes), file_(file) {}

  Result<void> run() {
    DS4_TRY_VOID(header());
    for (uint64_t i = 0; i < n_keys_; ++i) DS4_TRY_VOID(key_value());
    DS4_TRY_VOID(refuse_split(file_));
    DS4_TRY_VOID(alignment());
    for (uint64_t i = 0; i < n_tensors_; ++i) DS4_TRY_VOID(tensor());
    return data_section();
  }

 private:
  size_t left() const { return bytes_.size() - pos_; }

  tl::unexpected<Error> truncated(std::string_view what, uint64_t need) const {
    return fail(ErrorCode::kCorrupt,
                fmt::format("truncated at byte {}: {} needs {} bytes, the file ends after {} "
                            "(size {}; download incomplete?)",
                            pos_, what, need, left(), bytes_.size()));
  }
  tl::unexpected<Error> corrupt(size_t at, std::string message) const {
    return fail(ErrorCode::kCorrupt, fmt::format("corrupt at byte {}: {}", at, message));
  }

  template <typename T>
  Result<T> scalar(std::string_view what) {
    if (left() < sizeof(T)) return truncated(what, sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + pos_, sizeof(T));
    pos_ += sizeof(T);
    return value;
  }

  Result<std::string_view> string(std::string_view what) {
    DS4_TRY(const uint64_t length, scalar<uint64_t>(what));
    if (length > left()) return truncated(what, length);
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data() + pos_), length);
    pos_ += length;
    return text;
  }

  // A key or a tensor name: not empty, no control characters, so that it can stand in a message.
  Result<std::string_view> name(std::string_view what) {
    const size_t at = pos_;
    DS4_TRY(const std::string_view text, string(what));
    const bool clean = std::all_of(text.begin(), text.end(), [](char c) {
      return static_cast<unsigned char>(c) > 0x20 && static_cast<unsigned char>(c) < 0x7f;
    });
    if (text.empty() || !clean) {
      return corrupt(at, fmt::format("{} must be printable ASCII without spaces", what));
    }
    return text;
  }

  Result<void> header();
  Result<void> key_value();
  Result<ValueType> value_type(std::string_view key);
  Result<void> skip_value(ValueType type, std::string_view key, int depth);
  Result<void> alignment();
  Result<void> tensor();
  Result<void> dims(TensorInfo& info);
  Result<void> data_section();
  Result<void> place(TensorInfo& info);
  Result<void> ends_inside() const;
  Result<void> no_overlap() const;

  std::span<const std::byte> bytes_;
  File& file_;
  size_t pos_ = 0;
  uint64_t n_tensors_ = 0;
  uint64_t n_keys_ = 0;
};

Result<void> Parser::header() {
  if (bytes_.empty())
    return fail(ErrorCode::kCorrupt, "truncated: the file is empty, expected GGUF");
  uint32_t magic = 0;
  const size_t n_magic = std::min<size_t>(4, bytes_.size());
  std::memcpy(&magic, bytes_.data(), n_magic);
  if (std::memcmp(bytes_.data(), &kMagic, n_magic) != 0) {
    const std::string foreign = describe_foreign(bytes_);
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("not a GGUF file: expected the bytes \"GGUF\" at byte 0, found "
                            "{:02x} {:02x} {:02x} {:02x}{}{}",
                            magic & 0xff, magic >> 8 & 0xff, magic >> 16 & 0xff, magic >> 24,
                            foreign.empty() ? "" : "; ", foreign));
  }
  if (bytes_.size() < kMinFileBytes) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("truncated: {} bytes are too few for a GGUF file, at least {} expected",
                            bytes_.size(), kMinFileBytes));
  }
  pos_ = 4;
  DS4_TRY(const uint32_t version, scalar<uint32_t>("the version"));
  if (version != kVersion) {
    const bool swapped = version == __builtin_bswap32(kVersion);
    return fail(ErrorCode::kUnsupported,
                fmt::format("GGUF version at byte 4: expected 3, found {}{}", version,
                            swapped ? " (a big-endian file, not supported)" : ""));
  }
  DS4_TRY(n_tensors_, scalar<uint64_t>("the tensor count"));
  DS4_TRY(n_keys_, scalar<uint64_t>("the key count"));
  if (n_tensors_ > left() / kMinTensorBytes) {
    return corrupt(8,
                   fmt::format("{} tensors cannot fit in a file of {} bytes (truncated or hostile)",
                               n_tensors_, bytes_.size()));
  }
  if (n_keys_ > left() / kMinKeyBytes) {
    return corrupt(
        16, fmt::format("{} metadata keys cannot fit in a file of {} bytes (truncated or hostile)",
                        n_keys_, bytes_.size()));
  }
  return {};
}

Result<ValueType> Parser::value_type(std::string_view key) {
  const size_t at = pos_;
  DS4_TRY(const uint32_t id, scalar<uint32_t>(key));
  if (id > kMaxValueType) {
    return corrupt(
        at, fmt::format("key {}: value type 0..{} expected, found {}", key, kMaxValueType, id));
  }
  return static_cast<ValueType>(id);
}

Result<void> Parser::skip_value(ValueType type, std::string_view key, int depth) {
  if (type == ValueType::kString) {
    DS4_TRY_VOID(string(key));
    return {};
  }
  if (type != ValueType::kArray) {
    const auto n = static_cast<size_t>(value_bytes(type));
    if (left() < n) return truncated(key, n);
    if (type == ValueType::kBool && std::to_integer<int>(bytes_[pos_]) > 1) {
      return corrupt(pos_, fmt::format("key {}: a bool is 0 or 1, found {}", key,
                                       std::to_integer<int>(bytes_[pos_])));
    }
    pos_ += n;
    return {};
  }
  if (depth == kMaxArrayDepth) {
    return corrupt(pos_, fmt::format("key {}: arrays nested deeper than {}", key, kMaxArrayDepth));
  }
  DS4_TRY(const ValueType element, value_type(key));
  DS4_TRY(const uint64_t count, scalar<uint64_t>(key));
  // Smallest size of one element: a string has at least its length, an array its type and count.
  const uint64_t least = element == ValueType::kString ? 8
                         : element == ValueType::kArray
                             ? 12
                             : static_cast<uint64_t>(value_bytes(element));
  if (count > left() / least) {
    return corrupt(pos_,
                   fmt::format("key {}: truncated or hostile: {} elements of type {} cannot fit "
                               "in the {} bytes left of {}",
                               key, count, value_type_name(element), left(), bytes_.size()));
  }
  if (element != ValueType::kString && element != ValueType::kArray) {
    pos_ += count * least;
    return {};
  }
  for (uint64_t i = 0; i < count; ++i) DS4_TRY_VOID(skip_value(element, key, depth + 1));
  return {};
}

Result<void> Parser::key_value() {
  const size_t at = pos_;
  DS4_TRY(const std::string_view key, name("a metadata key"));
  DS4_TRY(const ValueType type, value_type(key));
  const size_t begin = pos_;
  DS4_TRY_VOID(skip_value(type, key, 0));
  const Value value(type, bytes_.subspan(begin, pos_ - begin));
  if (!file_.key_index_.emplace(key, file_.metadata_.size()).second) {
    if (must_be_unique(key)) return corrupt(at, fmt::format("key {} appears twice", key));
    log::warn("gguf", "{}: key {} appears twice, the first value is used", file_.path_, key);
  }
  file_.metadata_.push_back({key, value});
  return {};
}

Result<void> Parser::alignment() {
  const Value* value = file_.find("general.alignment");
  if (value == nullptr) return {};
  const auto n = value->as_int();
  const bool fine = n && *n >= 0 && (*n == 0 || ((*n & (*n - 1)) == 0 && *n % 8 == 0));
  if (!fine) {
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("general.alignment: a power of two and a multiple of 8 expected, found {}",
                    n ? fmt::to_string(*n) : value->type_name()));
  }
  if (*n != 0) file_.alignment_ = *n;
  return {};
}

Result<void> Parser::dims(TensorInfo& info) {
  const size_t at = pos_;
  DS4_TRY(const uint32_t n_dims, scalar<uint32_t>("a tensor's number of dimensions"));
  if (n_dims < 1 || n_dims > kMaxDims) {
    return corrupt(at, fmt::format("tensor {}: 1..{} dimensions expected, found {}", info.name,
                                   kMaxDims, n_dims));
  }
  int64_t n_elements = 1;
  for (uint32_t d = 0; d < n_dims; ++d) {
    const size_t dim_at = pos_;
    DS4_TRY(const uint64_t dim, scalar<uint64_t>("a tensor dimension"));
    if (dim == 0) return corrupt(dim_at, fmt::format("tensor {}: dimension {} is 0", info.name, d));
    if (dim > static_cast<uint64_t>(kMaxInt64) ||
        __builtin_mul_overflow(n_elements, static_cast<int64_t>(dim), &n_elements)) {
      return corrupt(dim_at,
                     fmt::format("tensor {}: the number of elements overflows 64 bits", info.name));
    }
    info.dims.push_back(static_cast<int64_t>(dim));
  }
  return {};
}

Result<void> Parser::tensor() {
  const size_t at = pos_;
  TensorInfo info;
  DS4_TRY(info.name, name("a tensor name"));
  DS4_TRY_VOID(dims(info));
  const size_t type_at = pos_;
  DS4_TRY(info.type_id, scalar<uint32_t>("a tensor type"));
  DS4_TRY(const uint64_t offset, scalar<uint64_t>("a tensor offset"));
  if (const auto geometry = type_geometry(info.type_id)) {
    if (info.dims[0] % geometry->block_elems != 0) {
      return corrupt(type_at,
                     fmt::format("tensor {}: a row of {} values is not a multiple of the {} "
                                 "block of {}",
                                 info.name, info.dims[0], geometry->name, geometry->block_elems));
    }
    int64_t bytes = info.dims[0] / geometry->block_elems;
    bool overflow = __builtin_mul_overflow(bytes, geometry->block_bytes, &bytes);
    for (size_t d = 1; d < info.dims.size(); ++d) {
      overflow |= __builtin_mul_overflow(bytes, info.dims[d], &bytes);
    }
    if (overflow) {
      return corrupt(at, fmt::format("tensor {}: its size overflows 64 bits", info.name));
    }
    info.bytes = bytes;
  }
  if (offset % static_cast<uint64_t>(file_.alignment_) != 0) {
    return corrupt(type_at + 4,
                   fmt::format("tensor {}: offset {} is not a multiple of the alignment {}",
                               info.name, offset, file_.alignment_));
  }
  if (offset > static_cast<uint64_t>(kMaxInt64)) {
    return corrupt(type_at + 4,
                   fmt::format("tensor {}: offset {} is out of range", info.name, offset));
  }
  info.offset = static_cast<int64_t>(offset);
  if (!file_.tensor_index_.emplace(info.name, file_.tensors_.size()).second) {
    return corrupt(at, fmt::format("tensor {} appears twice", info.name));
  }
  file_.tensors_.push_back(std::move(info));
  return {};
}

// Turns the relative offset into one from the start of the file.
Result<void> Parser::place(TensorInfo& info) {
  if (__builtin_add_overflow(info.offset, file_.data_start_, &info.offset)) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("tensor {}: its offset overflows 64 bits", info.name));
  }
  int64_t end = 0;
  if (__builtin_add_overflow(info.offset, info.bytes.value_or(0), &end)) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("tensor {}: its end overflows 64 bits", info.name));
  }
  return {};
}

Result<void> Parser::ends_inside() const {
  const TensorInfo* last = nullptr;
  const auto end_of = [](const TensorInfo& t) { return t.offset + t.bytes.value_or(0); };
  for (const TensorInfo& t : file_.tensors_) {
    if (last == nullptr || end_of(t) > end_of(*last)) last = &t;
  }
  const auto size = static_cast<int64_t>(bytes_.size());
  if (last == nullptr || end_of(*last) <= size) return {};
  return fail(
      ErrorCode::kCorrupt,
      fmt::format("truncated: tensor {} at byte {} needs the file to have at least {} bytes, "
                  "found {} (download incomplete?)",
                  last->name, last->offset, end_of(*last), size));
}

Result<void> Parser::no_overlap() const {
  std::vector<const TensorInfo*> order;
  for (const TensorInfo& t : file_.tensors_) {
    if (t.bytes) order.push_back(&t);
  }
  std::sort(order.begin(), order.end(),
            [](const TensorInfo* a, const TensorInfo* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const TensorInfo& before = *order[i - 1];
    if (before.offset + *before.bytes > order[i]->offset) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("corrupt: tensor {} (bytes {}..{}) overlaps tensor {} at byte {}",
                              before.name, before.offset, before.offset + *before.bytes,
                              order[i]->name, order[i]->offset));
    }
  }
  return {};
}

Result<void> Parser::data_section() {
  const int64_t a = file_.alignment_;
  const auto end = static_cast<int64_t>(pos_);
  file_.data_start_ = end + (a - end % a) % a;
  for (TensorInfo& info : file_.tensors_) DS4_TRY_VOID(place(info));
  DS4_TRY_VOID(ends_inside());
  DS4_TRY_VOID(no_overlap());
  for (TensorInfo& info : file_.tensors_) info.data = bytes_.data() + info.offset;
  return {};
}

Result<File> File::parse(std::span<const std::byte> bytes, std::string name) {
  File file;
  file.path_ = std::move(name);
  file.bytes_ = bytes;
  if (auto parsed = Parser(bytes, file).run(); !parsed) {
    return fail_within(file.path_, std::move(parsed.error()));
  }
  return file;
}

Result<File> File::open(const std::string& path) {
  DS4_TRY(MappedFile mapping, MappedFile::open(path));
  DS4_TRY(File file, parse(mapping.bytes(), path));
  file.mapping_ = std::move(mapping);
  return file;
}

const Value* File::find(std::string_view key) const {
  const auto found = key_index_.find(key);
  return found == key_index_.end() ? nullptr : &metadata_[found->second].value;
}

const TensorInfo* File::find_tensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace ds4::gguf
