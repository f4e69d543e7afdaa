// Manual pages, --help and /help tell the same story: none has a flag or command that another
// lacks.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "tests/support/process.h"
#include "tests/support/pty.h"

namespace ds4::test {
namespace {

std::string manual(const std::string& page) {
  std::stringstream text;
  text << std::ifstream(std::string(DS4_SOURCE_DIR) + "/docs/man/" + page).rdbuf();
  return text.str();
}

std::set<std::string> all_matches(const std::string& text, const std::string& pattern) {
  std::set<std::string> found;
  const std::regex regex(pattern);
  for (auto it = std::sregex_iterator(text.begin(), text.end(), regex);
       it != std::sregex_iterator(); ++it) {
    found.insert((*it)[1]);
  }
  return found;
}

std::string joined(const std::set<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word + " ";
  return text;
}

// Flags are the first word of a line of --help ("  -m,--model FILE ..."), and `Fl` in an `.It` line
// of the page, where a further dash of a long flag is part of the argument.
void expect_same_flags(const std::string& program, const std::string& page) {
  Process process({program, "--help"});
  ASSERT_EQ(process.wait(), 0);
  const std::string text = process.out();
  const std::string help = text.substr(0, text.find("Examples:"));
  std::set<std::string> in_help = all_matches(help, R"((?:^|\n)  +(-[a-z])(?:,|\s))");
  in_help.merge(all_matches(help, R"((?:\n  +|,)(--[a-z][-a-z]*))"));

  std::set<std::string> in_manual;
  std::istringstream lines(manual(page));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(".It Fl ")) continue;
    for (const std::string& flag : all_matches(line, R"(Fl (-?[a-z][-a-z]*))")) {
      in_manual.insert("-" + flag);
    }
  }
  EXPECT_GT(in_help.size(), 25u) << "the pattern no longer finds the flags of --help";
  EXPECT_EQ(joined(in_manual), joined(in_help));
}

TEST(Ds4Manual, HasTheFlagsOfHelp) { expect_same_flags(DS4_PROGRAM, "ds4.1"); }

TEST(Ds4BenchManual, HasTheFlagsOfHelp) { expect_same_flags(DS4_BENCH_PROGRAM, "ds4-bench.1"); }

// The page explains every column that a row has.
TEST(Ds4BenchManual, HasTheColumnsOfARow) {
  const std::set<std::string> columns =
      all_matches(manual("ds4-bench.1"), R"(\n\.It Li ([a-z0-9_]+))");
  Process process({DS4_BENCH_PROGRAM, "-m", std::string(DS4_BINARY_DIR) + "/nano/nano-q8_0.gguf",
                   "--prompt-file", std::string(DS4_SOURCE_DIR) + "/README.md", "--ctx-start", "2",
                   "--ctx-max", "2", "--gen-tokens", "0", "--extended"});
  ASSERT_EQ(process.wait(), 0) << process.err();
  const std::string text = process.out();
  const size_t header = text.find('\n') + 1;  // after the line of facts
  const std::string line = text.substr(header, text.find('\n', header) - header);
  EXPECT_EQ(joined(columns), joined(all_matches(line, R"(([a-z0-9_]+))")));
}

TEST(Ds4Manual, HasTheCommandsOfTheConversation) {
  PtyOptions options;
  options.environment = {{"HOME", "/proc"}, {"TERM", "dumb"}};
  PtyProcess ds4({DS4_PROGRAM, "-m", std::string(DS4_BINARY_DIR) + "/nano/nano-q8_0.gguf"},
                 options);
  ASSERT_TRUE(ds4.wait_for("ds4> "));
  ds4.type("/help\n");
  ASSERT_TRUE(ds4.wait_for("ds4> ")) << ds4.screen();
  const std::set<std::string> in_help = all_matches(ds4.between(), R"(\n  (/[a-z][-a-z]*))");
  const std::set<std::string> in_manual =
      all_matches(manual("ds4.1"), R"(\n\.It Ic (/[a-z][-a-z]*))");
  EXPECT_GE(in_help.size(), 11u);
  EXPECT_EQ(joined(in_manual), joined(in_help));
}

}  // namespace
}  // namespace ds4::test
