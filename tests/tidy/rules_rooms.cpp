// Rooms and arrows: the folder graph of src/ stays acyclic because every #include is held against
// one table.
#include <algorithm>
#include <filesystem>

#include "tests/tidy/tidy.h"

namespace ds4::tidy {
namespace {

// The table of docs/architecture.md. Every room may include itself and `base` besides.
struct Room {
  std::string_view name;
  std::vector<std::string_view> includes;
};

const std::vector<Room>& rooms() {
  static const std::vector<Room> table = {
      {"base", {}},
      {"tensor", {}},
      {"quant", {"tensor"}},
      {"gguf", {"tensor"}},
      {"safetensors", {"tensor"}},
      {"tokenizer", {}},
      {"model", {"tensor", "gguf", "tokenizer"}},
      {"ops", {"tensor", "model"}},
      // What reference and cpu share as host code; the two themselves never meet.
      {"backend/host", {"tensor", "quant", "model", "ops"}},
      {"backend/reference", {"tensor", "quant", "model", "ops", "backend/host"}},
      {"backend/cpu", {"tensor", "quant", "model", "ops", "backend/host"}},
      {"backend/cuda", {"tensor", "quant", "model", "ops"}},
      {"backend/metal", {"tensor", "quant", "model", "ops"}},
      {"backend",
       {"ops", "backend/host", "backend/reference", "backend/cpu", "backend/cuda",
        "backend/metal"}},
      {"engine", {"tensor", "tokenizer", "model", "ops", "backend"}},
      {"chat", {"tokenizer"}},
      {"kvstore", {"tokenizer", "engine"}},
      {"quantizer", {"tensor", "quant", "gguf", "safetensors", "tokenizer", "model"}},
      {"eval", {"tokenizer", "chat", "engine", "model", "ops", "backend"}},
      {"distributed", {"tensor", "engine"}},
      {"server", {"tokenizer", "chat", "kvstore", "engine"}},
      {"agent", {"tokenizer", "chat", "kvstore", "engine"}},
  };
  return table;
}

// What the services above may know of `engine`: none of them sees a tensor.
bool engine_header_is_for(std::string_view room, std::string_view header) {
  if (room != "kvstore" && room != "server" && room != "agent" && room != "distributed")
    return true;
  return header == "engine/engine.h" || header == "engine/session.h" ||
         header == "engine/snapshot.h" || (header == "engine/executor.h" && room == "distributed");
}

// "backend/cpu/linear.h" -> "backend/cpu"; "gguf/file.h" -> "gguf"; "file.h" -> "".
std::string room_of(std::string_view path) {
  const size_t slash = path.find('/');
  if (slash == std::string_view::npos) return {};
  const std::string_view first = path.substr(0, slash);
  const size_t second = path.find('/', slash + 1);
  if (first == "backend" && second != std::string_view::npos)
    return std::string(path.substr(0, second));
  return std::string(first);
}

const Room* find_room(std::string_view name) {
  const auto it =
      std::find_if(rooms().begin(), rooms().end(), [&](const Room& r) { return r.name == name; });
  return it == rooms().end() ? nullptr : &*it;
}

struct Include {
  int64_t line;
  std::string path;
  bool quoted;
};

// The #include lines of a file that are code; the path is read from the text, where it is not
// blanked.
std::vector<Include> includes_of(const File& file) {
  std::vector<Include> found;
  for (size_t begin = 0, line = 1; begin < file.text.size(); ++line) {
    const size_t end = std::min(file.text.find('\n', begin), file.text.size());
    const std::string_view code = std::string_view(file.code).substr(begin, end - begin);
    const std::string_view text = std::string_view(file.text).substr(begin, end - begin);
    const size_t hash = code.find_first_not_of(" \t");
    if (hash != std::string_view::npos && code[hash] == '#') {
      const size_t word = code.find_first_not_of(" \t", hash + 1);
      const size_t open = text.find_first_of("\"<", hash);
      if (word != std::string_view::npos && code.substr(word, 7) == "include" &&
          open != std::string_view::npos) {
        const size_t close = text.find(text[open] == '"' ? '"' : '>', open + 1);
        found.push_back({static_cast<int64_t>(line),
                         std::string(text.substr(open + 1, close - open - 1)), text[open] == '"'});
      }
    }
    begin = end + 1;
  }
  return found;
}

void check_file(const Tree& tree, const File& file, Findings& out) {
  const std::string room = room_of(std::string_view(file.path).substr(4));  // after "src/"
  const Room* row = find_room(room);
  if (row == nullptr) {
    out.push_back({file.path, 0, "rooms", "'" + room + "' is no room of the table in tests/tidy"});
    return;
  }
  for (const Include& inc : includes_of(file)) {
    const std::string other = room_of(inc.path);
    const bool in_src = std::filesystem::exists(tree.root / "src" / inc.path);
    const auto report = [&](const std::string& message) {
      out.push_back({file.path, inc.line, "rooms", message});
    };
    if (!inc.quoted) {
      if (in_src && find_room(other) != nullptr) report("<" + inc.path + "> is ours: use quotes");
      continue;
    }
    if (inc.path.find("..") != std::string::npos || !in_src) {
      report("\"" + inc.path + "\" is not a file below src/ (includes are rooted there)");
    } else if (find_room(other) == nullptr) {
      report("\"" + inc.path + "\" is in no room of the table in tests/tidy");
    } else if (other != room && other != "base" &&
               std::find(row->includes.begin(), row->includes.end(), other) ==
                   row->includes.end()) {
      report("room " + room + " may not include room " + other + " (\"" + inc.path + "\")");
    } else if (other == "engine" && !engine_header_is_for(room, inc.path)) {
      report("room " + room + " may include engine.h, session.h and snapshot.h of engine, not \"" +
             inc.path + "\"");
    }
  }
}

}  // namespace

void check_rooms(const Tree& tree, Findings& out) {
  for (const File& file : tree.sources) {
    if (file.path.starts_with("src/")) check_file(tree, file, out);
  }
}

}  // namespace ds4::tidy
