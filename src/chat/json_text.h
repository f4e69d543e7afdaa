#pragma once
// JSON as the model saw it in training: Python's json.dumps(value, ensure_ascii=False), that is ",
// " and
// ": " between things, characters beyond ASCII raw, keys in the order received.
//
// Numbers keep the text they arrived with. Where the library would print another (1e5, 1.50,
// integers beyond 64 bits) the parser stores the source text as a *binary* value, which JSON text
// cannot produce otherwise; write_json() prints it as it came and json_number() reads it.
//
// The parser is event-driven: no recursion, every limit checked as it goes, members of an object
// found in O(log n) where the library's ordered object would walk all of them.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ds4 {

inline constexpr int64_t kJsonDepthMax = 128;
inline constexpr int64_t kJsonBytesMax = int64_t{64} << 20;

// Of a repeated key the last value counts, in the place of the first, as in Python.
// Errors: kCorrupt for text that is not JSON, with the byte where; kUnsupported beyond a limit.
Result<nlohmann::ordered_json> parse_json(std::string_view text);

// The same for the body of a request, whose outermost members are options (temperature,
// max_tokens): numbers among them are ordinary JSON numbers, whatever their spelling.
Result<nlohmann::ordered_json> parse_request_json(std::string_view text);

// `value` as text. Its depth must be at most kJsonDepthMax (checked); bytes in it that are not
// UTF-8 become U+FFFD.
std::string write_json(const nlohmann::ordered_json& value);

// The number in `value`, stored in either way; nothing when it is no number.
std::optional<double> json_number(const nlohmann::ordered_json& value);

}  // namespace ds4
