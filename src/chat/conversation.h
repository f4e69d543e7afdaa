#pragma once
// A conversation as the chat format knows it, whichever API it came through. Everything here is
// content: rendered, none of it becomes a control token.
#include <optional>
#include <string>
#include <vector>

namespace ds4 {

enum class Role {
  kSystem,
  kDeveloper,  // DeepSeek's internal search agent; a client's developer message is read as system
  kReminder,   // latest_reminder: today's facts, best placed before the user message
  kUser,
  kAssistant,
  kTool,
};

// DeepSeek's internal quick tasks. The token of the task follows the message that carries it.
enum class Task { kAction, kQuery, kAuthority, kDomain, kTitle, kReadUrl };

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON text as it came; other text is rendered as one raw parameter
};

struct Message {
  Role role = Role::kUser;
  std::string content;
  std::string reasoning;             // assistant
  std::vector<ToolCall> tool_calls;  // assistant
  bool unfinished = false;           // assistant: a prefix to continue, so no EOS
  std::string tool_call_id;          // tool
  std::optional<Task> task;          // user, assistant
};

struct Tool {
  std::string name;
  std::string schema;  // the function object (name, description, parameters, ...) as JSON text
};

struct Conversation {
  std::vector<Message> messages;
  std::vector<Tool> tools;
  std::optional<std::string> response_schema;  // JSON text
};

}  // namespace ds4
