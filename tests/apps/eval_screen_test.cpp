// ds4-eval at a terminal: the full-screen mode as a person uses it, and what is left behind.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/pty.h"

namespace ds4::test {
namespace {

const std::string kEnterPage = "\x1b[?1049h", kLeavePage = "\x1b[?1049l";
const std::string kUp = "\x1b[A", kDown = "\x1b[B";

std::vector<std::string> command(std::vector<std::string> more = {}) {
  std::vector<std::string> words = {
      DS4_PROGRAM, "-m", DS4_BINARY_DIR "/nano/nano-q8_0.gguf", "-n", "80", "--pause-ms", "0"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

PtyOptions terminal() { return {.environment = {{"TERM", "xterm-256color"}}}; }

// What was written after the page was left.
std::string after_page(PtyProcess& program) {
  const std::string all = program.screen();
  const size_t at = all.rfind(kLeavePage);
  return at == std::string::npos ? "" : all.substr(at + kLeavePage.size());
}

void expect_left_clean(PtyProcess& program) {
  EXPECT_TRUE(program.mode_is_as_it_was());
  const std::string all = program.screen();
  EXPECT_NE(all.find(kEnterPage), std::string::npos);
  EXPECT_NE(all.find(kLeavePage), std::string::npos);
  EXPECT_EQ(after_page(program).find('\x1b'), std::string::npos) << after_page(program);
}

// A whole run: it ends, stays to be looked at, follows the window's size, and q prints the report.
TEST(EvalScreen, ARunIsWatchedToItsEndAndReported) {
  PtyProcess program(command({"--questions", "4"}), terminal());
  ASSERT_TRUE(program.wait_for(kEnterPage)) << program.screen();
  ASSERT_TRUE(program.wait_for("done, q for the report"));
  EXPECT_FALSE(program.mode_is_as_it_was());
  program.type(kUp + kUp);
  ASSERT_TRUE(program.wait_for("case 2 of 4"));
  program.resize(60, 16);
  ASSERT_TRUE(program.wait_for("\x1b[2J"));
  ASSERT_TRUE(program.wait_for("case 2 of 4"));
  ASSERT_TRUE(program.wait_for("\x1b[16;1H"));
  EXPECT_EQ(program.between().find("\x1b[17;1H"), std::string::npos);
  program.type("q");
  EXPECT_EQ(program.wait(), 0);
  expect_left_clean(program);
  EXPECT_NE(after_page(program).find("4 / 4"), std::string::npos) << after_page(program);
}

// Pause, choose a case far away, let it run at once, quit in the middle.
TEST(EvalScreen, KeysSteerTheRun) {
  PtyProcess program(command(), terminal());
  ASSERT_TRUE(program.wait_for(" of 480, ")) << program.screen();
  program.type("p");
  ASSERT_TRUE(program.wait_for("paused, p goes on"));
  for (int i = 0; i < 480; ++i) program.type(kDown);
  ASSERT_TRUE(program.wait_for("case 480 of 480, pending"));
  program.type("\r" + kUp + kDown + "p");
  ASSERT_TRUE(program.wait_for("case 480 of 480, "));
  ASSERT_TRUE(program.wait_for(" tokens, "));  // facts of a case that has begun
  program.type("q");
  EXPECT_EQ(program.wait(), 0);
  expect_left_clean(program);
  const std::string report = after_page(program);
  std::smatch match;
  ASSERT_TRUE(std::regex_search(report, match, std::regex("\nall .* (\\d+) not run"))) << report;
  EXPECT_GT(std::stoi(match[1]), 100);
}

TEST(EvalScreen, CtrlCAndSigtermEndTheRunWithItsReport) {
  for (const bool by_key : {true, false}) {
    PtyProcess program(command(), terminal());
    ASSERT_TRUE(program.wait_for(" of 480, ")) << program.screen();
    if (by_key) {
      program.type("\x03");
    } else {
      program.signal(SIGTERM);
    }
    EXPECT_EQ(program.wait(), 130);
    expect_left_clean(program);
    EXPECT_NE(after_page(program).find("not run"), std::string::npos) << after_page(program);
  }
}

TEST(EvalScreen, GoesOnAfterAStop) {
  PtyProcess program(command(), terminal());
  ASSERT_TRUE(program.wait_for(" of 480, ")) << program.screen();
  program.signal(SIGSTOP);
  program.signal(SIGCONT);
  ASSERT_TRUE(program.wait_for(kEnterPage));
  ASSERT_TRUE(program.wait_for("of 480"));
  // Ctrl-Z gives the terminal back and takes it again; without a shell there is nothing to stop
  // for.
  program.type("\x1a");
  ASSERT_TRUE(program.wait_for(kLeavePage));
  program.signal(SIGCONT);
  ASSERT_TRUE(program.wait_for(kEnterPage));
  ASSERT_TRUE(program.wait_for("of 480"));
  program.type("q");
  EXPECT_EQ(program.wait(), 0);
  expect_left_clean(program);
}

// A crash must not leave a terminal without echo behind.
TEST(EvalScreen, ACrashGivesTheTerminalBack) {
  PtyProcess program(command(), terminal());
  ASSERT_TRUE(program.wait_for(" of 480, ")) << program.screen();
  program.signal(SIGABRT);
  EXPECT_EQ(program.wait(), -SIGABRT);
  expect_left_clean(program);
}

// What is said on standard error while the page is up is read after it, not in the middle of it:
// here that the reader of the trace has gone.
TEST(EvalScreen, MessagesWaitForThePageToLeave) {
  const std::string path = testing::TempDir() + "eval_trace_fifo";
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  PtyProcess program(command({"--questions", "2", "--trace", path}), terminal());
  {
    std::ifstream reader(path);
    std::string line;
    std::getline(reader, line);
  }
  ASSERT_TRUE(program.wait_for("done, q for the report")) << program.screen();
  program.type("q");
  EXPECT_EQ(program.wait(), 1);
  expect_left_clean(program);
  const std::string all = program.screen();
  const size_t said = all.find("no more is traced");
  ASSERT_NE(said, std::string::npos);
  EXPECT_GT(said, all.rfind(kLeavePage));
}

// Where there is no terminal that knows pages, or on request, the run is lines of text.
TEST(EvalScreen, PlainTextWhereThereIsNoScreen) {
  const std::string path = testing::TempDir() + "eval_plain_out";
  for (int way = 0; way < 3; ++way) {
    PtyOptions options = terminal();
    if (way == 1) options.environment["TERM"] = "dumb";
    if (way == 2) options.out_path = path;
    std::vector<std::string> more = {"--questions", "1"};
    if (way == 0) more.push_back("--plain");
    PtyProcess program(command(more), options);
    EXPECT_EQ(program.wait(), 0) << program.screen();
    std::string all = program.screen();
    EXPECT_EQ(all.find(kEnterPage), std::string::npos) << way;
    if (way == 2) {
      std::ifstream file(path);
      all.assign(std::istreambuf_iterator<char>(file), {});
      EXPECT_EQ(all.find('\x1b'), std::string::npos);
    }
    EXPECT_NE(all.find("1 / 1"), std::string::npos) << way << all;
    EXPECT_TRUE(program.mode_is_as_it_was());
  }
}

}  // namespace
}  // namespace ds4::test
