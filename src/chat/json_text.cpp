#include "chat/json_text.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <utility>
#include <vector>

#include "base/check.h"

namespace ds4 {
namespace {

using nlohmann::ordered_json;

// Builds the value from the library's parse events. Returning false from an event ends the parse;
// error_ then says why.
class Builder : public nlohmann::json_sax<ordered_json> {
 public:
  explicit Builder(bool plain_members) : plain_members_(plain_members) {}

  bool null() override { return add(ordered_json(nullptr)); }
  bool boolean(bool value) override { return add(ordered_json(value)); }
  bool number_integer(number_integer_t value) override { return add(ordered_json(value)); }
  bool number_unsigned(number_unsigned_t value) override { return add(ordered_json(value)); }
  bool string(string_t& value) override { return add(ordered_json(std::move(value))); }
  bool binary(binary_t&) override { return false; }  // an event of binary formats only

  bool number_float(number_float_t value, const string_t& source) override {
    ordered_json number(value);
    const bool plain = plain_members_ && open_.size() == 1;
    if (plain || number.dump() == source) return add(std::move(number));
    return add(ordered_json::binary(std::vector<uint8_t>(source.begin(), source.end())));
  }

  bool start_object(size_t) override { return open(ordered_json::object()); }
  bool start_array(size_t) override { return open(ordered_json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    Open& top = open_.back();
    auto& members = top.value->get_ref<ordered_json::object_t&>();
    const auto [at, fresh] = top.index.emplace(name, members.size());
    // vector's emplace_back, not the ordered map's emplace: that one walks all members.
    if (fresh) members.emplace_back(std::move(name), nullptr);
    member_ = &members.data()[at->second].second;  // the map's own [] looks a key up
    return true;
  }

  bool parse_error(size_t position, const std::string& token,
                   const nlohmann::detail::exception&) override {
    std::string near = token.substr(0, 32);
    for (char& c : near) {
      if (static_cast<unsigned char>(c) < 0x20) c = ' ';
    }
    error_ = {ErrorCode::kCorrupt, fmt::format("not JSON at byte {}, near '{}'", position, near)};
    return false;
  }

  Result<ordered_json> take(bool complete) {
    if (complete) return std::move(root_);
    return tl::unexpected<Error>(std::move(error_));
  }

 private:
  struct Open {
    ordered_json* value = nullptr;        // stays put while open: its parent gets nothing meanwhile
    std::map<std::string, size_t> index;  // of an object's members
  };

  bool add(ordered_json value) {
    place(std::move(value));
    return true;
  }

  ordered_json* place(ordered_json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    ordered_json& parent = *open_.back().value;
    if (parent.is_array()) {
      auto& items = parent.get_ref<ordered_json::array_t&>();
      items.push_back(std::move(value));
      return &items.back();
    }
    *member_ = std::move(value);
    return member_;
  }

  bool open(ordered_json empty) {
    if (static_cast<int64_t>(open_.size()) == kJsonDepthMax) {
      error_ = {ErrorCode::kUnsupported,
                fmt::format("JSON nesting too deep: more than {} levels", kJsonDepthMax)};
      return false;
    }
    ordered_json* value = place(std::move(empty));
    open_.push_back({value, {}});
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  bool plain_members_ = false;
  ordered_json root_;
  std::vector<Open> open_;
  ordered_json* member_ = nullptr;  // where the value of the key just read goes
  Error error_{ErrorCode::kCorrupt, "not JSON"};
};

Result<ordered_json> parse(std::string_view text, bool plain_members) {
  if (static_cast<int64_t>(text.size()) > kJsonBytesMax) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("JSON too long: {} bytes, at most {}", text.size(), kJsonBytesMax));
  }
  // The library takes a NUL for the end of its input and would pass over what is behind it.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return fail(ErrorCode::kCorrupt, fmt::format("not JSON at byte {}: a NUL", nul));
  }
  Builder builder(plain_members);
  return builder.take(ordered_json::sax_parse(text, &builder));
}

std::string scalar_text(const ordered_json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/false, ordered_json::error_handler_t::replace);
}

void append(std::string& out, const ordered_json& value, int64_t depth) {
  DS4_CHECK(depth <= kJsonDepthMax);
  if (value.is_binary()) {
    const auto& source = value.get_binary();
    out.append(source.begin(), source.end());
    return;
  }
  if (!value.is_structured()) {
    out += scalar_text(value);
    return;
  }
  std::string_view between;
  out += value.is_object() ? '{' : '[';
  for (const auto& [key, item] : value.items()) {
    out += between;
    between = ", ";
    if (value.is_object()) out.append(scalar_text(ordered_json(key))).append(": ");
    append(out, item, depth + 1);
  }
  out += value.is_object() ? '}' : ']';
}

}  // namespace

Result<ordered_json> parse_json(std::string_view text) { return parse(text, false); }

Result<ordered_json> parse_request_json(std::string_view text) { return parse(text, true); }

std::string write_json(const ordered_json& value) {
  std::string out;
  append(out, value, 0);
  return out;
}

std::optional<double> json_number(const ordered_json& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_binary()) return std::nullopt;
  const auto& source = value.get_binary();
  const char* begin = reinterpret_cast<const char*>(source.data());
  double number = 0;
  const auto read = std::from_chars(begin, begin + source.size(), number);
  if (read.ec != std::errc() || read.ptr != begin + source.size()) return std::nullopt;
  return number;
}

}  // namespace ds4
