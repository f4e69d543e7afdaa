#include "safetensors/header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

namespace ds4::safetensors {
namespace {

constexpr size_t kMaxRank = 8;

struct NamedType {
  std::string_view name;
  ElementType type;
  int64_t bytes;
};
constexpr std::array kTypes{
    NamedType{"F8_E4M3", ElementType::kF8E4M3, 1}, NamedType{"F8_E8M0", ElementType::kF8E8M0, 1},
    NamedType{"I8", ElementType::kI8, 1},          NamedType{"BF16", ElementType::kBF16, 2},
    NamedType{"F16", ElementType::kF16, 2},        NamedType{"F32", ElementType::kF32, 4},
    NamedType{"I32", ElementType::kI32, 4},        NamedType{"I64", ElementType::kI64, 8},
};

// One entry of the header as the file states it.
struct RawTensor {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<std::vector<uint64_t>> shape;
  std::optional<std::vector<uint64_t>> offsets;
};

// Receives the JSON events. A handler returns false to stop; `problem` then says why.
class HeaderEvents {
 public:
  std::vector<RawTensor> tensors;
  std::string problem;

  bool null() { return unexpected("null"); }
  bool boolean(bool) { return unexpected("a bool"); }
  bool number_integer(int64_t) { return unexpected("a negative number"); }
  bool number_float(double, const std::string&) { return unexpected("a fraction"); }
  bool binary(nlohmann::json::binary_t&) { return unexpected("binary data"); }

  bool number_unsigned(uint64_t value) {
    if (in_metadata_ || list_ == nullptr) return unexpected("a number");
    if (list_->size() == kMaxRank) return stop("a list of more than 8 numbers");
    list_->push_back(value);
    return true;
  }

  bool string(std::string& value) {
    if (in_metadata_ && depth_ == 2) return true;
    if (depth_ != 2 || field_ != "dtype" || list_ != nullptr) return unexpected("a string");
    if (tensors.back().dtype) return stop("dtype given twice");
    tensors.back().dtype = std::move(value);
    return true;
  }

  bool key(std::string& name) {
    if (depth_ == 1) {
      if (!names_.insert(name).second) return stop(fmt::format("{} appears twice", name));
      in_metadata_ = name == "__metadata__";
      if (!in_metadata_) tensors.push_back({std::move(name), {}, {}, {}});
      return true;
    }
    if (in_metadata_) return true;
    field_ = std::move(name);
    if (field_ == "dtype" || field_ == "shape" || field_ == "data_offsets") return true;
    return stop(fmt::format("unknown field {}", field_));
  }

  bool start_object(size_t) {
    if (++depth_ > 2 || list_ != nullptr) return unexpected("a nested object");
    return true;
  }
  bool end_object() {
    --depth_;
    return true;
  }

  bool start_array(size_t) {
    if (depth_ != 2 || in_metadata_ || list_ != nullptr || field_ == "dtype") {
      return unexpected("a list");
    }
    auto& target = field_ == "shape" ? tensors.back().shape : tensors.back().offsets;
    if (target) return stop(fmt::format("{} given twice", field_));
    list_ = &target.emplace();
    return true;
  }
  bool end_array() {
    list_ = nullptr;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) {
    // Byte 8 of the file is byte 1 of the JSON in the parser's counting.
    return stop(fmt::format("not valid JSON at byte {}", position + 7));
  }

 private:
  bool unexpected(std::string_view what) { return stop(fmt::format("{} is not expected", what)); }
  bool stop(std::string why) {
    problem = std::move(why);
    if (!tensors.empty()) problem += fmt::format(" (at or after tensor {})", tensors.back().name);
    return false;
  }

  int depth_ = 0;
  bool in_metadata_ = false;
  std::string field_;
  std::vector<uint64_t>* list_ = nullptr;
  std::unordered_set<std::string> names_;
};

tl::unexpected<Error> corrupt(std::string_view file, std::string message) {
  return fail(ErrorCode::kCorrupt, fmt::format("{}: {}", file, message));
}

// Elements times element size, or nothing when that overflows a signed size. A dimension of 0 hides
// no other one: [2^63, 0] has no bytes but is no shape either.
std::optional<uint64_t> byte_count(const std::vector<uint64_t>& shape, int64_t each) {
  auto n = static_cast<uint64_t>(each);
  bool empty = false;
  for (const uint64_t dim : shape) {
    empty |= dim == 0;
    if (__builtin_mul_overflow(n, std::max<uint64_t>(dim, 1), &n)) return std::nullopt;
  }
  if (n > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return empty ? 0 : n;
}

Result<TensorInfo> check_tensor(RawTensor& raw, std::span<const std::byte> data,
                                std::string_view file) {
  if (!raw.dtype || !raw.shape || !raw.offsets || raw.offsets->size() != 2) {
    return corrupt(file,
                   fmt::format("tensor {}: dtype, shape and two data_offsets expected", raw.name));
  }
  const auto* type = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const NamedType& t) { return t.name == *raw.dtype; });
  if (type == kTypes.end()) {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("{}: tensor {} has dtype {}, expected one of F8_E4M3, F8_E8M0, I8, BF16, "
                    "F16, F32, I32, I64",
                    file, raw.name, *raw.dtype));
  }
  const uint64_t begin = (*raw.offsets)[0], end = (*raw.offsets)[1];
  if (begin > end || end > data.size()) {
    return corrupt(file,
                   fmt::format("truncated or corrupt: tensor {} spans bytes {}..{} of the data, "
                               "which has {} (download incomplete?)",
                               raw.name, begin, end, data.size()));
  }
  const auto need = byte_count(*raw.shape, type->bytes);
  if (!need || *need != end - begin) {
    return corrupt(file, fmt::format("tensor {}: {} of shape [{}] does not take {} bytes", raw.name,
                                     type->name, fmt::join(*raw.shape, ", "), end - begin));
  }
  TensorInfo info{
      std::move(raw.name), type->type, {}, data.data() + begin, static_cast<int64_t>(end - begin)};
  for (const uint64_t dim : *raw.shape) info.shape.push_back(static_cast<int64_t>(dim));
  return info;
}

Result<void> no_overlap(const std::vector<TensorInfo>& tensors, std::string_view file) {
  std::vector<const TensorInfo*> order;
  for (const TensorInfo& t : tensors) {
    if (t.bytes > 0) order.push_back(&t);
  }
  std::sort(order.begin(), order.end(),
            [](const TensorInfo* a, const TensorInfo* b) { return a->data < b->data; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i - 1]->data + order[i - 1]->bytes > order[i]->data) {
      return corrupt(
          file, fmt::format("tensor {} overlaps tensor {}", order[i - 1]->name, order[i]->name));
    }
  }
  return {};
}

}  // namespace

std::string_view element_name(ElementType type) { return kTypes[static_cast<size_t>(type)].name; }
int64_t element_bytes(ElementType type) { return kTypes[static_cast<size_t>(type)].bytes; }

std::string TensorInfo::shape_text() const { return fmt::format("[{}]", fmt::join(shape, ", ")); }

Result<std::vector<TensorInfo>> parse_file(std::span<const std::byte> bytes,
                                           std::string_view file) {
  uint64_t n = 0;
  if (bytes.size() < sizeof(n)) {
    return corrupt(file, fmt::format("truncated: {} bytes, a safetensors header needs at least 8",
                                     bytes.size()));
  }
  std::memcpy(&n, bytes.data(), sizeof(n));
  const std::span<const std::byte> rest = bytes.subspan(sizeof(n));
  if (n > static_cast<uint64_t>(kMaxHeaderBytes)) {
    return corrupt(file,
                   fmt::format("header length at byte 0: at most {} expected, found {} (is this "
                               "a safetensors file?)",
                               kMaxHeaderBytes, n));
  }
  if (n > rest.size()) {
    return corrupt(file,
                   fmt::format("truncated: the header has {} bytes, the file only {} after byte "
                               "8 (download incomplete?)",
                               n, rest.size()));
  }
  const auto* text = reinterpret_cast<const char*>(rest.data());
  HeaderEvents events;
  if (n == 0 || text[0] != '{') return corrupt(file, "header at byte 8: a JSON object expected");
  if (!nlohmann::json::sax_parse(text, text + n, &events)) {
    return corrupt(file, "header: " + events.problem);
  }
  std::vector<TensorInfo> tensors;
  for (RawTensor& raw : events.tensors) {
    DS4_TRY(TensorInfo info, check_tensor(raw, rest.subspan(n), file));
    tensors.push_back(std::move(info));
  }
  DS4_TRY_VOID(no_overlap(tensors, file));
  return tensors;
}

}  // namespace ds4::safetensors
