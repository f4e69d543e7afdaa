// What reaches a person's terminal.
#include "common/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/base/temp_folder.h"
#include "tokenizer/utf8.h"

namespace ds4::app {
namespace {

// Every control character of both sets, alone and between letters.
TEST(Terminal, ControlCharactersAreReplaced) {
  for (int c = 0; c < 256; ++c) {
    const bool c1 = c >= 0x80;
    if (c >= 0xa0) continue;
    const std::string one =
        c1 ? std::string("\xc2") + static_cast<char>(c) : std::string(1, static_cast<char>(c));
    const std::string got = without_controls("a" + one + "b");
    const bool plain = c == '\n' || c == '\t' || (c >= 0x20 && c < 0x7f);
    EXPECT_EQ(got, plain ? "a" + one + "b" : "a" + std::string(kReplacementChar) + "b") << c;
  }
  EXPECT_EQ(without_controls("Größe 漢字 😀"), "Größe 漢字 😀");
}

// Standard output into a file for as long as it lives.
class Captured {
 public:
  Captured() : saved_(::dup(STDOUT_FILENO)) {
    std::fflush(stdout);
    const int fd = ::open(file().c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(fd, STDOUT_FILENO);
    ::close(fd);
  }
  std::string text() {
    std::fflush(stdout);
    ::dup2(saved_, STDOUT_FILENO);
    std::ifstream stream(file(), std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

 private:
  std::string file() const { return folder_.file("out"); }
  TempFolder folder_;
  int saved_;
};

std::string printed(const Screen& screen) {
  Captured captured;
  AnswerPrinter printer(screen, /*hide_thinking=*/false);
  const OutputChunk chunks[] = {{Channel::kReasoning, "why\x1b[2J"},
                                {Channel::kContent, "so\x1b]0;x\x07"}};
  EXPECT_TRUE(printer.print(chunks));
  EXPECT_TRUE(printer.finish());
  return captured.text();
}

TEST(Terminal, AModelCannotSteerATerminal) {
  const std::string r(kReplacementChar);
  EXPECT_EQ(printed({.out_is_terminal = true, .err_is_terminal = true, .styles = true}),
            "\x1b[2mwhy" + r + "[2J\x1b[0m\n\nso" + r + "]0;x" + r + "\n");
  EXPECT_EQ(printed({.out_is_terminal = true, .err_is_terminal = true, .styles = false}),
            "why" + r + "[2J\n\nso" + r + "]0;x" + r + "\n");
}

TEST(Terminal, FilesGetTheExactBytesOfTheAnswer) { EXPECT_EQ(printed({}), "so\x1b]0;x\x07\n"); }

TEST(Terminal, StylesDependOnTheTerminalsName) {
  EXPECT_TRUE(Screen::detect("xterm-256color").styles);
  for (const char* name : {static_cast<const char*>(nullptr), "", "dumb"}) {
    EXPECT_FALSE(Screen::detect(name).styles);
  }
}

}  // namespace
}  // namespace ds4::app
