#include "chat/call_arguments.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "chat/json_text.h"

namespace ds4::dsml {
namespace {

using nlohmann::ordered_json;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string json_string(std::string_view text) {
  return write_json(ordered_json(std::string(text)));
}

// `text` as a value. A byte order mark, which the parser passes over, has no place inside JSON.
std::optional<ordered_json> as_json(std::string_view text) {
  if (text.starts_with("\uFEFF")) return std::nullopt;
  auto parsed = parse_json(text);
  if (!parsed) return std::nullopt;
  return std::move(*parsed);
}

const ordered_json* member(const ordered_json* object, std::string_view name) {
  if (object == nullptr || !object->is_object()) return nullptr;
  const auto found = object->find(std::string(name));
  return found == object->end() ? nullptr : &*found;
}

// Whether a value without a mark is a string: when its schema says so, or says nothing.
bool is_string_schema(const ordered_json* schema) {
  const ordered_json* type = member(schema, "type");
  if (type == nullptr) return true;
  if (type->is_array()) return std::find(type->begin(), type->end(), "string") != type->end();
  return !type->is_string() || *type == "string";
}

std::string value_json(std::string_view text, const RawParameter& parameter,
                       const ordered_json* schema) {
  const std::string_view value = parameter.value.of(text);
  const auto& mark = parameter.string_attribute;
  const bool is_string = mark == "true" || (mark != "false" && is_string_schema(schema));
  const std::string_view source = trimmed(value);
  return !is_string && as_json(source) ? std::string(source) : json_string(value);
}

// Writes the parameters of a call as one object; those that hold others nest.
class ObjectWriter {
 public:
  ObjectWriter(std::string_view text, const ordered_json* properties) : text_(text) {
    open(properties);
  }

  void add(const RawParameter& parameter) {
    if (parameter.depth > skipped_depth_) return;  // inside a repeated one
    skipped_depth_ = kNothingSkipped;
    while (static_cast<int64_t>(levels_.size()) - 1 > parameter.depth) close();
    Level& level = levels_.back();
    const bool first = level.seen.empty();
    if (!level.seen.insert(parameter.name).second) {
      skipped_depth_ = parameter.depth;
      return;
    }
    if (!first) out_ += ", ";
    out_.append(json_string(parameter.name)).append(": ");
    const ordered_json* schema = member(level.properties, parameter.name);
    if (parameter.is_object) {
      open(member(schema, "properties"));
    } else {
      out_ += value_json(text_, parameter, schema);
    }
  }

  std::string take() {
    while (!levels_.empty()) close();
    return std::move(out_);
  }

 private:
  static constexpr int64_t kNothingSkipped = kNestedParametersMax + 1;

  struct Level {
    std::set<std::string_view> seen;
    const ordered_json* properties = nullptr;
  };

  void open(const ordered_json* properties) {
    out_ += '{';
    levels_.push_back({{}, properties});
  }
  void close() {
    out_ += '}';
    levels_.pop_back();
  }

  std::string_view text_;
  std::string out_;
  std::vector<Level> levels_;
  int64_t skipped_depth_ = kNothingSkipped;
};

// The object inside `wrapped`, an object with one member that its tool does not have.
std::optional<std::string> unwrapped(std::string_view value, const ordered_json& properties) {
  std::string inner(trimmed(value));
  auto parsed = as_json(inner);
  if (parsed && parsed->is_string()) {
    inner = std::string(trimmed(parsed->get_ref<const std::string&>()));
    parsed = as_json(inner);
  }
  if (!parsed || !parsed->is_object()) return std::nullopt;
  for (const auto& item : parsed->items()) {
    if (member(&properties, item.key()) == nullptr) return std::nullopt;
  }
  return inner;
}

std::optional<std::string> from_parameters(std::string_view text, const RawCall& call,
                                           ToolSchemas& schemas) {
  if (call.parameters.empty()) {
    // A call with text inside that is no argument must not run as one without arguments.
    return call.has_noise ? std::nullopt : std::optional<std::string>("{}");
  }
  const ordered_json* properties = schemas.properties(call.name);
  const RawParameter& first = call.parameters[0];
  const bool may_wrap = call.parameters.size() == 1 && !first.is_object &&
                        (first.name == "arguments" || first.name == "input");
  if (may_wrap && properties != nullptr && member(properties, first.name) == nullptr) {
    if (auto inner = unwrapped(first.value.of(text), *properties)) return inner;
  }
  ObjectWriter writer(text, properties);
  for (const RawParameter& parameter : call.parameters) writer.add(parameter);
  return writer.take();
}

}  // namespace

ToolSchemas::ToolSchemas(std::span<const Tool> tools) {
  for (const Tool& tool : tools) entries_.emplace(tool.name, Entry{tool.schema, std::nullopt});
}

const ordered_json* ToolSchemas::properties(std::string_view tool) {
  const auto found = entries_.find(tool);
  if (found == entries_.end()) return nullptr;
  auto& [schema, parsed] = found->second;
  if (!parsed) parsed = as_json(schema).value_or(ordered_json(nullptr));
  const ordered_json* properties = member(member(&*parsed, "parameters"), "properties");
  return properties != nullptr && properties->is_object() ? properties : nullptr;
}

std::optional<std::string> arguments_json(std::string_view text, const RawCall& call,
                                          ToolSchemas& schemas) {
  auto made = call.body ? std::optional<std::string>(trimmed(call.body->of(text)))
                        : from_parameters(text, call, schemas);
  if (!made) return std::nullopt;
  const auto parsed = as_json(*made);
  if (!parsed || !parsed->is_object()) return std::nullopt;
  return made;
}

}  // namespace ds4::dsml
