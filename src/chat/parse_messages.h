#pragma once
// From the JSON of a chat request to a Conversation. This is the border to clients: everything is
// checked here, and an error names the member at fault ("messages[3].tool_calls[0].function.name").
//
// Read leniently where clients differ and the meaning is plain: content may be null, absent, a
// string or an array of text parts; arguments may be a string or an object; reasoning comes as
// reasoning_content or reasoning. All errors are kInvalidArgument.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "chat/conversation.h"

namespace ds4 {

inline constexpr int64_t kMessagesMax = 65536;
inline constexpr int64_t kToolsMax = 4096;

struct MessageOptions {
  // Accept what only DeepSeek's own services send: the developer role as such, and `task`. Without
  // it developer is read as system, and a task is an error.
  bool internal = false;
};

// `messages` is the API's array. Three things are decided here, outside the reference encoder:
//   - parts of a tool result are joined by a blank line, other parts directly; a part of a tool
//   result
//     that is not text becomes "[Unsupported TYPE]", elsewhere it is an error;
//   - a tool result must answer a call of an earlier assistant message, and be the only answer to
//   it;
//   - a system message right after a user or tool message gets a blank line in front, because
//   system
//     text has no marker of its own and would run into what the user wrote.
Result<std::vector<Message>> parse_messages(const nlohmann::ordered_json& messages,
                                            const MessageOptions& options = {});

// `tools` is the API's array of {"type": "function", "function": {...}}, or null. A name has 1 to
// 128 letters, digits and _ - . : / so that it cannot end the tag it is written into.
Result<std::vector<Tool>> parse_tools(const nlohmann::ordered_json& tools);

// `format` is the API's response_format: text or null (nothing), json_object, json_schema.
Result<std::optional<std::string>> parse_response_format(const nlohmann::ordered_json& format);

}  // namespace ds4
