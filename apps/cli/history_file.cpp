#include "history_file.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <system_error>

#include "base/file_writer.h"
#include "input.h"

namespace ds4::cli {
namespace {

// Longer entries (a pasted book) are not worth keeping.
constexpr size_t kEntryBytesMax = 65536;

std::string escaped(const std::string& entry) {
  std::string out;
  for (const char c : entry) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\\') {
      out += "\\\\";
    } else {
      out += c;
    }
  }
  return out;
}

std::string unescaped(std::string_view line) {
  std::string out;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size()) {
      ++i;
      out += line[i] == 'n' ? '\n' : line[i];
    } else {
      out += line[i];
    }
  }
  return out;
}

std::string followed(std::string path) {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::canonical(path, error);
  return error ? path : target.string();
}

}  // namespace

HistoryFile::HistoryFile(std::string path) : path_(followed(std::move(path))) {}

std::vector<std::string> HistoryFile::load() const {
  std::vector<std::string> entries;
  if (path_.empty()) return entries;
  const auto text = read_regular_file(path_);
  if (!text) return entries;
  for (size_t begin = 0; begin < text->size();) {
    const size_t end = std::min(text->find('\n', begin), text->size());
    if (end > begin)
      entries.push_back(unescaped(std::string_view(*text).substr(begin, end - begin)));
    begin = end + 1;
  }
  if (entries.size() > kHistoryMax) entries.erase(entries.begin(), entries.end() - kHistoryMax);
  return entries;
}

Result<void> HistoryFile::append(const std::string& entry) const {
  if (path_.empty() || entry.empty() || entry.size() > kEntryBytesMax) return {};
  std::vector<std::string> entries = load();
  if (!entries.empty() && entries.back() == entry) return {};
  entries.push_back(entry);
  if (entries.size() > kHistoryMax) entries.erase(entries.begin());
  std::string text;
  for (const std::string& e : entries) text += escaped(e) + "\n";
  DS4_TRY(FileWriter file, FileWriter::create(path_, /*overwrite=*/true, 0600));
  DS4_TRY_VOID(file.write(std::as_bytes(std::span(text))));
  return file.commit();
}

}  // namespace ds4::cli
