#pragma once
// Protocol constants: the plain text around which DeepSeek-V4 was trained to converse. Control
// tokens are in tokenizer/special_tokens.h; the tags below are ordinary text, except for the
// ｜DSML｜ inside them.
//
// Source: the encoder in DeepSeek's V4 model repositories (directory `encoding`, MIT licence);
// prefix B from the 0731 release. Tests hold them against hashes and rendered prompts.
#include <string_view>

namespace ds4::protocol {

extern const std::string_view kEffortPrefixA;  // 476 bytes
extern const std::string_view kEffortPrefixB;  // 528 bytes

// The tools section: head, one line of JSON per tool joined by '\n', tail (which ends in '\n').
extern const std::string_view kToolsHead;
extern const std::string_view kToolsTail;

inline constexpr std::string_view kResponseFormatHead =
    "## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n";

inline constexpr std::string_view kToolResultOpen = "<tool_result>";
inline constexpr std::string_view kToolResultClose = "</tool_result>";

inline constexpr std::string_view kToolCallsOpen = "<｜DSML｜tool_calls>\n";
inline constexpr std::string_view kToolCallsClose = "\n</｜DSML｜tool_calls>";
inline constexpr std::string_view kInvokeOpen = "<｜DSML｜invoke name=\"";
inline constexpr std::string_view kInvokeClose = "\n</｜DSML｜invoke>";
inline constexpr std::string_view kParameterOpen = "<｜DSML｜parameter name=\"";
inline constexpr std::string_view kParameterString = "\" string=\"true\">";
inline constexpr std::string_view kParameterJson = "\" string=\"false\">";
inline constexpr std::string_view kParameterClose = "</｜DSML｜parameter>";

}  // namespace ds4::protocol
