#include <algorithm>
#include <cctype>
#include <cstdio>
#include <fstream>

#include "tests/tidy/tidy.h"

namespace ds4::tidy {
namespace fs = std::filesystem;
namespace {

bool ends_with_any(std::string_view path, std::initializer_list<std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(), [&](auto end) { return path.ends_with(end); });
}

// The whole word list of `git ls-files -z`, or nothing with `ok` false.
std::vector<std::string> tracked_files(const fs::path& root, bool& ok) {
  ok = false;
  std::vector<std::string> files;
  if (!fs::exists(root / ".git")) return files;
  std::string quoted = "'";
  for (char c : root.string()) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  // A checkout that belongs to another user is still only read here.
  const std::string command =
      "git -c safe.directory='*' -C " + quoted + "' ls-files -z 2>/dev/null";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return files;
  std::string all;
  char buffer[65536];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) all.append(buffer, n);
  ok = pclose(pipe) == 0;
  for (size_t begin = 0; ok && begin < all.size();) {
    const size_t end = all.find('\0', begin);
    files.push_back(all.substr(begin, end - begin));
    if (end == std::string::npos) break;
    begin = end + 1;
  }
  return files;
}

// The end of the literal or comment that opens at `i`, or `i` when none does.
size_t skip_from(std::string_view text, size_t i) {
  const auto until = [&](std::string_view end, size_t from) {
    const size_t at = text.find(end, from);
    return at == std::string_view::npos ? text.size() : at + end.size();
  };
  if (text.substr(i, 2) == "//") {
    const size_t at = text.find('\n', i);
    return at == std::string_view::npos ? text.size() : at;
  }
  if (text.substr(i, 2) == "/*") return until("*/", i + 2);
  const char quote = text[i];
  if (quote != '"' && quote != '\'') return i;
  const char before = i > 0 ? text[i - 1] : ' ';
  if (quote == '\'' && std::isalnum(static_cast<unsigned char>(before))) {
    // 1'000 is a number; u'x' and L'x' are literals.
    const bool prefix = (before == 'u' || before == 'U' || before == 'L') &&
                        (i < 2 || !std::isalnum(static_cast<unsigned char>(text[i - 2])));
    if (!prefix) return i;
  }
  if (quote == '"' && before == 'R') {
    const size_t paren = text.find('(', i);
    if (paren == std::string_view::npos) return text.size();
    return until(")" + std::string(text.substr(i + 1, paren - i - 1)) + "\"", paren);
  }
  for (size_t at = i + 1; at < text.size() && text[at] != '\n'; ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == quote) {
      return at + 1;
    }
  }
  return i + 1;
}

}  // namespace

std::string code_only(std::string_view text) {
  std::string code(text);
  for (size_t i = 0; i < text.size();) {
    const size_t end = skip_from(text, i);
    for (size_t at = i; at < end; ++at) {
      if (code[at] != '\n') code[at] = ' ';
    }
    i = std::max(end, i + 1);
  }
  return code;
}

std::string read_file(const fs::path& path, int64_t bytes_max) {
  std::error_code error;
  const auto size = static_cast<int64_t>(fs::file_size(path, error));
  if (error) return {};
  std::string text(static_cast<size_t>(bytes_max < 0 ? size : std::min(size, bytes_max)), '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  return text;
}

int64_t line_at(std::string_view text, size_t offset) {
  return 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n');
}

bool is_header(std::string_view path) { return ends_with_any(path, {".h", ".cuh", ".hpp"}); }

Tree read_tree(const fs::path& root) {
  Tree tree;
  tree.root = root;
  tree.tracked = tracked_files(root, tree.git);
  const auto add = [&](const fs::path& full) {
    const std::string path = full.lexically_relative(root).generic_string();
    const std::string name = full.filename().string();
    if (name == "CMakeLists.txt" || name == "CMakePresets.json" || path.ends_with(".cmake")) {
      tree.cmake.push_back({path, read_file(full), {}});
    } else if (is_header(path) || ends_with_any(path, {".cpp", ".cc", ".cu", ".inc"})) {
      std::string text = read_file(full);
      std::string code = code_only(text);
      tree.sources.push_back({path, std::move(text), std::move(code)});
    }
  };
  for (const char* top : {"src", "apps", "tests", "bench", "cmake"}) {
    if (!fs::is_directory(root / top)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      if (entry.is_regular_file()) add(entry.path());
    }
  }
  for (const char* file : {"CMakeLists.txt", "CMakePresets.json"}) {
    if (fs::exists(root / file)) add(root / file);
  }
  const auto by_path = [](const File& a, const File& b) { return a.path < b.path; };
  std::sort(tree.sources.begin(), tree.sources.end(), by_path);
  std::sort(tree.cmake.begin(), tree.cmake.end(), by_path);
  return tree;
}

Findings run_rules(const Tree& tree) {
  Findings out;
  check_rooms(tree, out);
  check_calls(tree, out);
  check_fast_math(tree, out);
  check_lengths(tree, out);
  check_pragma_once(tree, out);
  check_tracked_size(tree, out);
  check_places(tree, out);
  return out;
}

}  // namespace ds4::tidy
