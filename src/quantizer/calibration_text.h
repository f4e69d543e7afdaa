#pragma once
// The text an importance matrix is made from: rendered chats, one after the other, each begun by a
// line that starts with kCalibrationMark (what follows on that line is a note for people).
#include <string_view>
#include <vector>

namespace ds4 {

inline constexpr std::string_view kCalibrationMark = "===== DS4_IMATRIX_PROMPT";

// The prompts of `text`, without the white space around them; blank ones are left out. A text
// without marks is one prompt. Views into `text`.
std::vector<std::string_view> split_calibration_text(std::string_view text);

}  // namespace ds4
