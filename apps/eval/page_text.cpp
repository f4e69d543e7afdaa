#include "page_text.h"

#include <algorithm>
#include <ftxui/screen/string.hpp>
#include <utility>

#include "tokenizer/utf8.h"

namespace ds4::evaluate {
namespace {

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// What stands in one or two columns.
struct Glyph {
  std::string_view bytes;
  int columns = 1;
};

// The glyphs of shown text, in the same measure that FTXUI draws them in: it keeps an empty string
// behind a wide one.
std::vector<Glyph> glyphs_of(std::string_view text, std::vector<std::string>& storage) {
  std::vector<Glyph> glyphs;
  glyphs.reserve(text.size());
  if (is_ascii(text)) {
    for (size_t i = 0; i < text.size(); ++i) glyphs.push_back({text.substr(i, 1), 1});
    return glyphs;
  }
  storage = ftxui::Utf8ToGlyphs(std::string(text));
  for (const std::string& glyph : storage) {
    if (glyph.empty() && !glyphs.empty()) {
      glyphs.back().columns = 2;
    } else {
      glyphs.push_back({glyph, 1});
    }
  }
  return glyphs;
}

// One line of text as lines of at most `columns`, cut at spaces where that is possible.
void wrap_line(std::string_view line, int columns, std::vector<std::string>& out) {
  std::vector<std::string> storage;
  const std::vector<Glyph> glyphs = glyphs_of(line, storage);
  size_t begin = 0;
  do {
    size_t end = begin, after_space = begin;
    for (int used = 0; end < glyphs.size() && used + glyphs[end].columns <= columns; ++end) {
      used += glyphs[end].columns;
      if (glyphs[end].bytes == " ") after_space = end + 1;
    }
    if (end < glyphs.size() && after_space > begin && glyphs[end].bytes != " ") end = after_space;
    if (end == begin && end < glyphs.size()) ++end;  // wider than the column: it is cut when drawn
    std::string text;
    for (size_t i = begin; i < end; ++i) text += glyphs[i].bytes;
    out.push_back(std::move(text));
    // The space at which a line was cut is not shown again.
    begin = end < glyphs.size() && end > begin && glyphs[end].bytes == " " ? end + 1 : end;
  } while (begin < glyphs.size());
}

}  // namespace

std::string shown_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const auto size = static_cast<int64_t>(text.size());
  for (int64_t at = 0; at < size;) {
    const Utf8Step step = utf8_step(text, at);
    const std::string_view bytes = text.substr(at, step.n_bytes);
    at += step.n_bytes;
    const unsigned char c = static_cast<unsigned char>(bytes[0]);
    if (bytes == "\r" && at < size && text[at] == '\n') continue;
    const bool c1 = bytes.size() == 2 && c == 0xC2 && static_cast<unsigned char>(bytes[1]) < 0xA0;
    // Marks of direction and line ends beyond '\n': they would move what stands around them.
    const bool moves = (bytes >= "\u2028" && bytes <= "\u202E") ||
                       (bytes >= "\u2066" && bytes <= "\u2069") || bytes == "\u200E" ||
                       bytes == "\u200F" || bytes == "\uFEFF";
    if (bytes == "\t") {
      out += "    ";
    } else if ((c < 0x20 && c != '\n') || c == 0x7F || c1 || moves ||
               step.status != Utf8Status::kValid) {
      out += kReplacementChar;
    } else {
      out += bytes;
    }
  }
  return out;
}

std::string one_line(std::string_view text) {
  std::string shown = shown_text(text);
  std::ranges::replace(shown, '\n', ' ');
  return shown;
}

int columns_of(const std::string& text) {
  return is_ascii(text) ? static_cast<int>(text.size()) : ftxui::string_width(text);
}

std::string fitted(const std::string& text, int columns, bool align_right) {
  const int wanted = std::max(columns, 0);
  const int has = columns_of(text);
  if (has <= wanted) {
    const std::string padding(static_cast<size_t>(wanted - has), ' ');
    return align_right ? padding + text : text + padding;
  }
  if (wanted == 0) return {};
  std::vector<std::string> storage;
  std::string cut;
  int used = 0;
  for (const Glyph& glyph : glyphs_of(text, storage)) {
    if (used + glyph.columns > wanted - 1) break;
    cut += glyph.bytes;
    used += glyph.columns;
  }
  cut += "…";
  return cut + std::string(static_cast<size_t>(wanted - used - 1), ' ');
}

std::vector<std::string> wrapped(std::string_view text, int columns) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  const std::string shown = shown_text(text);
  std::vector<std::string> lines;
  for (size_t begin = 0; begin <= shown.size();) {
    const size_t end = std::min(shown.find('\n', begin), shown.size());
    wrap_line(std::string_view(shown).substr(begin, end - begin), columns, lines);
    begin = end + 1;
  }
  return lines;
}

}  // namespace ds4::evaluate
