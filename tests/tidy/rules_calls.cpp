// Calls that live in one place: the environment and the exit in apps/, allocation in owners, output
// in the log.
#include <algorithm>
#include <cctype>

#include "tests/tidy/tidy.h"

namespace ds4::tidy {
namespace {

enum class Form {
  kCall,  // the word followed by '('
  kWord,  // the word alone
};

struct Ban {
  std::string_view word;
  Form form;
  std::string_view why;
  std::vector<std::string_view> allowed;  // path prefixes
};

const std::vector<Ban>& bans() {
  static const std::string_view kEnv = "only apps/ reads the environment: take it as an option";
  static const std::string_view kStop = "only apps/ ends the program: return a Result";
  static const std::string_view kHeap = "memory has an owner: a container, unique_ptr or Buffer";
  static const std::string_view kPrint = "rooms return numbers and log; apps/ prints";
  static const std::string_view kRandom = "not reproducible: use a seeded generator";
  static const std::vector<std::string_view> check = {"src/base/check."};
  // The one place that asks the system for device-like host memory.
  static const std::vector<std::string_view> heap = {"src/tensor/buffer."};
  static const std::vector<Ban> table = {
      {"getenv", Form::kWord, kEnv, {}},
      {"secure_getenv", Form::kWord, kEnv, {}},
      {"environ", Form::kWord, kEnv, {}},
      {"setenv", Form::kCall, kEnv, {}},
      {"putenv", Form::kCall, kEnv, {}},
      {"exit", Form::kCall, kStop, check},
      {"_exit", Form::kCall, kStop, check},
      {"quick_exit", Form::kCall, kStop, check},
      {"abort", Form::kCall, kStop, check},
      {"terminate", Form::kCall, kStop, check},
      {"malloc", Form::kCall, kHeap, heap},
      {"calloc", Form::kCall, kHeap, heap},
      {"realloc", Form::kCall, kHeap, heap},
      {"aligned_alloc", Form::kCall, kHeap, heap},
      {"posix_memalign", Form::kCall, kHeap, heap},
      {"new", Form::kWord, kHeap, heap},
      {"cout", Form::kWord, kPrint, {}},
      {"cerr", Form::kWord, kPrint, {}},
      {"clog", Form::kWord, kPrint, {}},
      {"printf", Form::kCall, kPrint, {}},
      {"fprintf", Form::kCall, kPrint, check},
      {"vfprintf", Form::kCall, kPrint, check},
      {"puts", Form::kCall, kPrint, {}},
      {"fputs", Form::kCall, kPrint, check},
      {"rand", Form::kCall, kRandom, {}},
      {"srand", Form::kCall, kRandom, {}},
      {"throw", Form::kWord, "we throw nothing: return a Result", {}},
  };
  return table;
}

bool is_word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Whether the word at [at, at+size) is a use: not part of a longer word, not a member of something
// (`stream.exit()`), and for calls followed by '('. `std::exit(` and `::exit(` are uses.
bool is_use(std::string_view code, size_t at, size_t size, Form form) {
  if (at > 0 && (is_word_char(code[at - 1]) || code[at - 1] == '.')) return false;
  if (at > 1 && code.substr(at - 2, 2) == "->") return false;
  const size_t end = at + size;
  if (end < code.size() && is_word_char(code[end])) return false;
  if (form == Form::kWord) return true;
  const size_t next = code.find_first_not_of(" \t\n", end);
  return next != std::string_view::npos && code[next] == '(';
}

std::string_view line_of(std::string_view text, size_t at) {
  const size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;  // npos + 1 == 0
  return text.substr(begin, std::min(text.find('\n', at), text.size()) - begin);
}

bool is_preprocessor(std::string_view line) {
  const size_t first = line.find_first_not_of(" \t");
  return first != std::string_view::npos && line[first] == '#';
}

bool allows(const Ban& ban, const File& file) {
  return std::any_of(ban.allowed.begin(), ban.allowed.end(),
                     [&](std::string_view prefix) { return file.path.starts_with(prefix); });
}

void check_ban(const Ban& ban, const File& file, Findings& out) {
  if (allows(ban, file)) return;
  const std::string_view code = file.code;
  for (size_t at = code.find(ban.word); at != std::string_view::npos;
       at = code.find(ban.word, at + ban.word.size())) {
    if (!is_use(code, at, ban.word.size(), ban.form)) continue;
    const std::string_view line = line_of(code, at);
    if (is_preprocessor(line) && line.find("include") != std::string_view::npos) continue;
    // make_unique cannot reach a private constructor.
    if (ban.word == "new" && line.find("unique_ptr<") != std::string_view::npos) continue;
    out.push_back({file.path, line_at(code, at), "calls",
                   "'" + std::string(ban.word) + "': " + std::string(ban.why)});
  }
}

void check_phrase(const File& file, std::string_view first, std::string_view second,
                  const std::string& message, Findings& out) {
  const std::string_view code = file.code;
  for (size_t at = code.find(first); at != std::string_view::npos; at = code.find(first, at + 1)) {
    if (!is_use(code, at, first.size(), Form::kWord)) continue;
    const size_t next = code.find_first_not_of(" \t\n", at + first.size());
    if (next != std::string_view::npos && code.substr(next, second.size()) == second) {
      out.push_back({file.path, line_at(code, at), "calls", message});
    }
  }
}

}  // namespace

void check_calls(const Tree& tree, Findings& out) {
  for (const File& file : tree.sources) {
    if (!file.path.starts_with("src/")) continue;
    for (const Ban& ban : bans()) check_ban(ban, file, out);
    check_phrase(file, "using", "namespace", "'using namespace' hides where a name comes from",
                 out);
    check_phrase(file, "include", "<iostream>", "<iostream>: rooms log, apps/ prints", out);
  }
}

void check_fast_math(const Tree& tree, Findings& out) {
  for (const File& file : tree.cmake) {
    for (const std::string_view flag : {"-ffast-math", "-Ofast", "-funsafe-math-optimizations"}) {
      for (size_t at = file.text.find(flag); at != std::string::npos;
           at = file.text.find(flag, at + 1)) {
        const std::string_view before = line_of(file.text, at);
        const size_t hash = before.find('#');
        if (hash != std::string_view::npos && hash < before.find(flag)) continue;
        out.push_back({file.path, line_at(file.text, at), "fast-math",
                       std::string(flag) + " breaks bit-for-bit promises and NaN checks"});
      }
    }
  }
}

}  // namespace ds4::tidy
