#pragma once
// House rules that a compiler does not check: which room may include which, how long a file may
// grow, which calls live where, what may stand in a tracked file. One rule is one function in
// rules_*.cpp; run_rules() runs all of them over a tree. The program beside this (main.cpp) is the
// ctest entry `tidy`; tidy_test.cpp breaks every rule once.
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ds4::tidy {

// One file as a rule sees it.
struct File {
  std::string path;  // relative to the root, with '/'
  std::string text;  // as on disk
  std::string code;  // C++ only: `text` with comments and literals blanked, same length and lines
};

struct Tree {
  std::filesystem::path root;
  std::vector<File> sources;  // C++ and CUDA below src, apps, tests, bench; on disk, tracked or not
  std::vector<File> cmake;    // CMakeLists.txt, *.cmake, CMakePresets.json
  std::vector<std::string> tracked;  // git ls-files; empty when `git` is false
  bool git = false;                  // false: not a checkout, or no git here
};

struct Finding {
  std::string path;
  int64_t line = 0;  // 1-based, 0: the whole file
  std::string rule;
  std::string message;
  bool fails = true;  // false: worth a look, not an error
};
using Findings = std::vector<Finding>;

// Reads the tree below `root`. Build folders and hidden folders are not entered.
Tree read_tree(const std::filesystem::path& root);

// `text` with comments, string and character literals (raw ones too) turned into spaces; newlines
// stay.
std::string code_only(std::string_view text);

// The first `bytes_max` bytes of a file, all of it when negative; "" when it cannot be read.
std::string read_file(const std::filesystem::path& path, int64_t bytes_max = -1);

int64_t line_at(std::string_view text, size_t offset);
bool is_header(std::string_view path);

void check_rooms(const Tree& tree, Findings& out);         // rules_rooms.cpp
void check_calls(const Tree& tree, Findings& out);         // rules_calls.cpp
void check_fast_math(const Tree& tree, Findings& out);     // rules_calls.cpp
void check_lengths(const Tree& tree, Findings& out);       // rules_shape.cpp
void check_pragma_once(const Tree& tree, Findings& out);   // rules_shape.cpp
void check_tracked_size(const Tree& tree, Findings& out);  // rules_tracked.cpp
void check_places(const Tree& tree, Findings& out);        // rules_tracked.cpp

Findings run_rules(const Tree& tree);

}  // namespace ds4::tidy
