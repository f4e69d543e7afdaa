#include "chat/parse_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "chat/json_text.h"

namespace ds4 {
namespace {

using nlohmann::ordered_json;

tl::unexpected<Error> invalid(std::string_view where, std::string_view what) {
  return fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", where, what));
}

// The member, or nullptr when it is absent or null.
const ordered_json* member(const ordered_json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// A string member; empty when absent or null.
Result<std::string> string_member(const ordered_json& object, const char* name,
                                  std::string_view where) {
  const ordered_json* value = member(object, name);
  if (value == nullptr) return std::string();
  if (!value->is_string()) {
    return invalid(fmt::format("{}.{}", where, name),
                   fmt::format("expected a string, found {}", value->type_name()));
  }
  return value->get<std::string>();
}

Result<bool> bool_member(const ordered_json& object, const char* name, std::string_view where) {
  const ordered_json* value = member(object, name);
  if (value == nullptr) return false;
  if (!value->is_boolean()) {
    return invalid(fmt::format("{}.{}", where, name),
                   fmt::format("expected true or false, found {}", value->type_name()));
  }
  return value->get<bool>();
}

// The text of one content part. In a tool result (`is_result`) a part of another kind becomes a
// text that says so, for the model to see.
Result<std::string> part_text(const ordered_json& part, bool is_result, std::string_view where) {
  if (part.is_string()) return part.get<std::string>();
  if (!part.is_object()) {
    return invalid(where, fmt::format("expected a content part, found {}", part.type_name()));
  }
  DS4_TRY(const std::string type, string_member(part, "type", where));
  if (type == "text" || type == "input_text" || type == "output_text") {
    return string_member(part, "text", where);
  }
  if (type == "refusal") return string_member(part, "refusal", where);
  if (is_result) return fmt::format("[Unsupported {}]", type);
  return invalid(where, fmt::format("this model reads text only, found a part of type '{}'", type));
}

Result<std::string> flatten_content(const ordered_json& message, bool is_result,
                                    std::string_view where) {
  const ordered_json* content = member(message, "content");
  const std::string content_where = fmt::format("{}.content", where);
  if (content == nullptr) return std::string();
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) {
    return invalid(content_where, fmt::format("expected a string or an array of parts, found {}",
                                              content->type_name()));
  }
  std::string joined;
  for (size_t i = 0; i < content->size(); ++i) {
    DS4_TRY(const std::string text,
            part_text((*content)[i], is_result, fmt::format("{}[{}]", content_where, i)));
    if (is_result && i > 0) joined += "\n\n";
    joined += text;
  }
  return joined;
}

// Text that could not stand between the quotes of an attribute.
bool breaks_attribute(std::string_view name) {
  return std::any_of(name.begin(), name.end(), [](char c) {
    return c == '"' || c == '\x7F' || static_cast<unsigned char>(c) < 0x20;
  });
}

// History is held to less than declarations: a model may call a tool by a name nobody declared, the
// client then sends that call back, and refusing it would end the conversation for good.
Result<ToolCall> parse_tool_call(const ordered_json& call, const std::string& where) {
  const ordered_json* function = call.is_object() ? member(call, "function") : nullptr;
  if (function == nullptr || !function->is_object()) {
    return invalid(where,
                   "expected {\"id\": ..., \"function\": {\"name\": ..., \"arguments\": ...}}");
  }
  const std::string function_where = where + ".function";
  ToolCall parsed;
  DS4_TRY(parsed.id, string_member(call, "id", where));
  DS4_TRY(parsed.name, string_member(*function, "name", function_where));
  if (parsed.name.empty() || breaks_attribute(parsed.name)) {
    return invalid(function_where + ".name",
                   "expected a tool name without quotes and control characters");
  }
  const ordered_json* arguments = member(*function, "arguments");
  const std::string arguments_where = function_where + ".arguments";
  if (arguments == nullptr) {
    parsed.arguments = "{}";
  } else if (arguments->is_string()) {
    parsed.arguments = arguments->get<std::string>();
  } else if (arguments->is_object()) {
    parsed.arguments = write_json(*arguments);
  } else {
    return invalid(arguments_where,
                   fmt::format("expected a string or an object, found {}", arguments->type_name()));
  }
  // Several clients write "no arguments" as an empty string.
  if (parsed.arguments.find_first_not_of(" \t\r\n") == std::string::npos) parsed.arguments = "{}";
  const auto json = parse_json(parsed.arguments);
  if (!json && json.error().code == ErrorCode::kUnsupported) {
    return invalid(arguments_where, json.error().message);
  }
  return parsed;
}

Result<Role> parse_role(const ordered_json& message, const MessageOptions& options,
                        const std::string& where) {
  static constexpr std::pair<std::string_view, Role> kRoles[] = {
      {"system", Role::kSystem}, {"developer", Role::kDeveloper},
      {"user", Role::kUser},     {"latest_reminder", Role::kReminder},
      {"tool", Role::kTool},     {"assistant", Role::kAssistant},
  };
  DS4_TRY(const std::string name, string_member(message, "role", where));
  for (const auto& [known, role] : kRoles) {
    if (name != known) continue;
    const bool as_system = role == Role::kDeveloper && !options.internal;
    return as_system ? Role::kSystem : role;
  }
  return invalid(
      where + ".role",
      fmt::format("expected system, developer, user, assistant, tool or latest_reminder, "
                  "found '{}'",
                  name));
}

Result<std::optional<Task>> parse_task(const ordered_json& message, const MessageOptions& options,
                                       const std::string& where) {
  static constexpr std::pair<std::string_view, Task> kTasks[] = {
      {"action", Task::kAction}, {"query", Task::kQuery}, {"authority", Task::kAuthority},
      {"domain", Task::kDomain}, {"title", Task::kTitle}, {"read_url", Task::kReadUrl},
  };
  DS4_TRY(const std::string name, string_member(message, "task", where));
  if (name.empty()) return std::optional<Task>();
  if (!options.internal) return invalid(where + ".task", "not accepted here");
  for (const auto& [known, task] : kTasks) {
    if (name == known) return std::optional<Task>(task);
  }
  return invalid(
      where + ".task",
      fmt::format("expected action, query, authority, domain, title or read_url, found '{}'",
                  name));
}

Result<void> parse_assistant(Message& parsed, const ordered_json& message,
                             const std::string& where) {
  DS4_TRY(parsed.reasoning, string_member(message, "reasoning_content", where));
  if (parsed.reasoning.empty()) {
    DS4_TRY(parsed.reasoning, string_member(message, "reasoning", where));
  }
  DS4_TRY(const bool prefix, bool_member(message, "prefix", where));
  DS4_TRY(const bool without_eos, bool_member(message, "wo_eos", where));
  parsed.unfinished = prefix || without_eos;
  const ordered_json* calls = member(message, "tool_calls");
  if (calls == nullptr) return {};
  if (!calls->is_array()) {
    return invalid(where + ".tool_calls",
                   fmt::format("expected an array, found {}", calls->type_name()));
  }
  for (size_t i = 0; i < calls->size(); ++i) {
    DS4_TRY(auto call, parse_tool_call((*calls)[i], fmt::format("{}.tool_calls[{}]", where, i)));
    parsed.tool_calls.push_back(std::move(call));
  }
  return {};
}

Result<Message> parse_message(const ordered_json& message, const MessageOptions& options,
                              const std::string& where) {
  if (!message.is_object()) {
    return invalid(where, fmt::format("expected an object, found {}", message.type_name()));
  }
  Message parsed;
  DS4_TRY(parsed.role, parse_role(message, options, where));
  DS4_TRY(parsed.content, flatten_content(message, parsed.role == Role::kTool, where));
  DS4_TRY(parsed.task, parse_task(message, options, where));
  DS4_TRY(parsed.tool_call_id, string_member(message, "tool_call_id", where));
  if (parsed.role == Role::kAssistant) DS4_TRY_VOID(parse_assistant(parsed, message, where));
  return parsed;
}

// Calls and results must pair up: a result that answers nothing, or a second answer, means that the
// client's history is damaged, and the model would be shown a dialogue that never took place.
class ResultChecker {
 public:
  Result<void> check(const Message& message, const std::string& where) {
    for (size_t i = 0; i < message.tool_calls.size(); ++i) {
      const std::string& id = message.tool_calls[i].id;
      const std::string id_where = fmt::format("{}.tool_calls[{}].id", where, i);
      if (id.empty()) return invalid(id_where, "missing");
      // A later turn may use an id again; within one turn it would name two calls.
      const auto [at, fresh] = calls_.emplace(id, Call{});
      if (!fresh && at->second.turn == n_turns_) {
        return invalid(id_where, fmt::format("'{}' names two calls of this message", id));
      }
      at->second = {n_turns_, false};
    }
    if (message.role == Role::kAssistant) ++n_turns_;
    if (message.role != Role::kTool) return {};

    const std::string id_where = where + ".tool_call_id";
    const auto call = calls_.find(message.tool_call_id);
    if (call == calls_.end()) {
      return invalid(id_where, fmt::format("no earlier assistant message has a call with id '{}'",
                                           message.tool_call_id));
    }
    if (call->second.answered) {
      return invalid(id_where,
                     fmt::format("the call '{}' has a result already", message.tool_call_id));
    }
    call->second.answered = true;
    return {};
  }

 private:
  struct Call {
    int64_t turn = -1;  // the assistant turn that made it, counted from 0
    bool answered = false;
  };
  std::map<std::string, Call> calls_;
  int64_t n_turns_ = 0;
};

bool is_tool_name(std::string_view name) {
  constexpr size_t kNameBytesMax = 128;
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-.:/").find(c) != std::string_view::npos;
  };
  return !name.empty() && name.size() <= kNameBytesMax &&
         std::all_of(name.begin(), name.end(), allowed);
}

// Both lists of a request are arrays with a limit; null counts as empty.
Result<void> check_array(const ordered_json& value, std::string_view where, int64_t n_max) {
  if (!value.is_array()) {
    return invalid(where, fmt::format("expected an array, found {}", value.type_name()));
  }
  if (static_cast<int64_t>(value.size()) > n_max) {
    return invalid(where, fmt::format("at most {}, found {}", n_max, value.size()));
  }
  return {};
}

}  // namespace

Result<std::vector<Message>> parse_messages(const ordered_json& messages,
                                            const MessageOptions& options) {
  DS4_TRY_VOID(check_array(messages, "messages", kMessagesMax));
  std::vector<Message> parsed;
  ResultChecker checker;
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string where = fmt::format("messages[{}]", i);
    DS4_TRY(auto message, parse_message(messages[i], options, where));
    DS4_TRY_VOID(checker.check(message, where));
    const bool after_user =
        !parsed.empty() && (parsed.back().role == Role::kUser || parsed.back().role == Role::kTool);
    if (message.role == Role::kSystem && after_user && !message.content.empty()) {
      message.content.insert(0, "\n\n");
    }
    parsed.push_back(std::move(message));
  }
  return parsed;
}

Result<std::vector<Tool>> parse_tools(const ordered_json& tools) {
  std::vector<Tool> parsed;
  if (tools.is_null()) return parsed;
  DS4_TRY_VOID(check_array(tools, "tools", kToolsMax));
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string where = fmt::format("tools[{}]", i);
    const ordered_json* function = tools[i].is_object() ? member(tools[i], "function") : nullptr;
    if (function == nullptr || !function->is_object()) {
      return invalid(where, "expected {\"type\": \"function\", \"function\": {...}}");
    }
    DS4_TRY(auto name, string_member(*function, "name", where + ".function"));
    if (!is_tool_name(name)) {
      return invalid(
          where + ".function.name",
          fmt::format("expected 1 to 128 letters, digits and _ - . : /, found '{}'", name));
    }
    parsed.push_back({std::move(name), write_json(*function)});
  }
  return parsed;
}

Result<std::optional<std::string>> parse_response_format(const ordered_json& format) {
  using Schema = std::optional<std::string>;
  if (format.is_null()) return Schema();
  const std::string_view where = "response_format";
  if (!format.is_object()) {
    return invalid(where, fmt::format("expected an object, found {}", format.type_name()));
  }
  DS4_TRY(const std::string type, string_member(format, "type", where));
  if (type == "text") return Schema();
  if (type == "json_object") return Schema(R"({"type": "object"})");
  if (type != "json_schema") {
    return invalid("response_format.type",
                   fmt::format("expected text, json_object or json_schema, found '{}'", type));
  }
  const ordered_json* outer = member(format, "json_schema");
  const ordered_json* schema =
      outer != nullptr && outer->is_object() ? member(*outer, "schema") : nullptr;
  if (schema == nullptr || !schema->is_object()) {
    return invalid("response_format.json_schema.schema", "expected an object");
  }
  return Schema(write_json(*schema));
}

}  // namespace ds4
