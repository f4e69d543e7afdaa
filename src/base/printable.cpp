#include "base/printable.h"

namespace ds4 {

std::string without_controls(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    const unsigned char next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f) {
      out += "\uFFFD";
    } else if (c == 0xc2 && next >= 0x80 && next < 0xa0) {  // C1 controls, U+0080 .. U+009F
      out += "\uFFFD";
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace ds4
