#pragma once
// From the parameters of one call, as they stand in the text, to its arguments as JSON text.
//
// A value marked string="true" is a JSON string of exactly its bytes. One marked "false" is JSON
// and keeps its spelling (1.50 stays 1.50); what is not JSON becomes a string. Without a mark the
// tool's schema decides. Of a repeated name the first value counts. A call that wraps all of its
// arguments in one parameter `arguments` or `input`, which its tool does not have, is unwrapped.
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "chat/conversation.h"
#include "chat/dsml_block.h"

namespace ds4::dsml {

// The `properties` of tools, parsed when first asked for. `tools` must outlive it. Single-thread.
class ToolSchemas {
 public:
  explicit ToolSchemas(std::span<const Tool> tools);

  // nullptr for a tool that is not declared or declares no properties.
  const nlohmann::ordered_json* properties(std::string_view tool);

 private:
  struct Entry {
    std::string_view schema;
    std::optional<nlohmann::ordered_json> parsed;
  };
  std::map<std::string_view, Entry> entries_;
};

// Nothing when the call has text where its arguments should be that cannot be read as such, or when
// the arguments are beyond what parse_json() takes. `text` is what the call was read from.
std::optional<std::string> arguments_json(std::string_view text, const RawCall& call,
                                          ToolSchemas& schemas);

}  // namespace ds4::dsml
