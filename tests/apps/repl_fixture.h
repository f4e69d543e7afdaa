#pragma once
// A conversation with ds4 at a pseudo-terminal, with Nano. Every wait is for something on the
// screen; nothing is timed.
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/base/temp_folder.h"
#include "tests/support/pty.h"

namespace ds4::test {

namespace fs = std::filesystem;

inline constexpr const char* kPrompt = "ds4> ";
inline constexpr const char* kCtrlC = "\x03";
inline constexpr const char* kCtrlD = "\x04";

inline std::string nano() { return std::string(DS4_BINARY_DIR) + "/nano/nano-q8_0.gguf"; }

inline bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline std::string read_file(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Greedy, no system text, no thinking: short answers, the same everywhere. A home of its own.
class Repl : public testing::Test {
 protected:
  const std::string& home() const { return folder_.path(); }

  std::unique_ptr<PtyProcess> start(std::vector<std::string> more = {}, PtyOptions options = {},
                                    const std::string& mode = "--nothink") const {
    std::vector<std::string> command = {DS4_PROGRAM, "-m", nano(), "--temp", "0", "-sys", "", mode};
    command.insert(command.end(), more.begin(), more.end());
    options.environment.insert({"HOME", home()});
    options.environment.insert({"TERM", "xterm"});
    options.environment.insert({"LC_ALL", "C.UTF-8"});
    return std::make_unique<PtyProcess>(command, options);
  }

  // Types a line and returns what appears until the next prompt.
  static std::string say(PtyProcess& ds4, const std::string& line) {
    ds4.type(line + "\n");
    EXPECT_TRUE(ds4.wait_for(kPrompt)) << "after '" << line << "':\n" << ds4.screen();
    return ds4.between();
  }

  static void leave(PtyProcess& ds4) {
    ds4.type("/quit\n");
    EXPECT_EQ(ds4.wait(), 0) << ds4.screen();
  }

 private:
  TempFolder folder_;
};

// The number before `word` in the status line of a turn.
inline int64_t number_before(const std::string& text, const std::string& word) {
  const size_t end = text.find(word);
  if (end == std::string::npos) return -1;
  size_t begin = end;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(text[begin - 1])) != 0) --begin;
  return begin == end ? -1 : std::stoll(text.substr(begin, end - begin));
}

}  // namespace ds4::test
