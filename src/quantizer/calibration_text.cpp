#include "quantizer/calibration_text.h"

namespace ds4 {
namespace {

constexpr std::string_view kBlank = " \t\r\n\v\f";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

}  // namespace

std::vector<std::string_view> split_calibration_text(std::string_view text) {
  std::vector<std::string_view> prompts;
  const auto keep = [&](std::string_view block) {
    if (block = trimmed(block); !block.empty()) prompts.push_back(block);
  };
  size_t begin = 0;  // of the present prompt
  for (size_t line = 0; line < text.size();) {
    const size_t newline = text.find('\n', line);
    const size_t next = newline == std::string_view::npos ? text.size() : newline + 1;
    if (text.substr(line).starts_with(kCalibrationMark)) {
      keep(text.substr(begin, line - begin));
      begin = next;
    }
    line = next;
  }
  keep(text.substr(begin));
  return prompts;
}

}  // namespace ds4
