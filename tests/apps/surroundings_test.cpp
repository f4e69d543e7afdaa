// ds4 in odd surroundings: other folders, no terminal, closed channels, hostile prompts.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/base/temp_folder.h"
#include "tests/support/process.h"

namespace ds4::test {
namespace {

namespace fs = std::filesystem;

std::string nano() { return std::string(DS4_BINARY_DIR) + "/nano/nano-q8_0.gguf"; }

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct Outcome {
  int code = -1;
  std::string out, err;
};

Outcome finish(Process& process) {
  Outcome outcome;
  outcome.code = process.wait();
  outcome.out = process.out();
  outcome.err = process.err();
  return outcome;
}

// A shell line in which $DS4 is the program with a model and greedy sampling.
Outcome shell(const std::string& line, const std::string& input = "") {
  Process process(
      {"/bin/sh", "-c",
       "DS4='" + std::string(DS4_PROGRAM) + " -m " + nano() + " --temp 0 --nothink'\n" + line},
      input);
  return finish(process);
}

Outcome ask_with_input(const std::string& input, std::vector<std::string> more = {}) {
  std::vector<std::string> args = {DS4_PROGRAM, "-m",        nano(), "--temp",
                                   "0",         "--nothink", "-n",   "4"};
  args.insert(args.end(), more.begin(), more.end());
  args.push_back("-");
  Process process(args, input);
  return finish(process);
}

constexpr const char* kAnswer = "A cow says \"moo\".\n";

// BC-93: nothing is found relative to where the program was built or started.
TEST(Ds4Surroundings, RunsFromAnyFolderWithARelativeModel) {
  const TempFolder folder;
  fs::create_symlink(nano(), folder.file("model.gguf"));
  const std::string relative = fs::path(folder.file("model.gguf")).relative_path().string();
  const Outcome got = shell("cd / && " DS4_PROGRAM " -m " + relative +
                            " --temp 0 --nothink -p 'What does a cow say?'");
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_EQ(got.out, kAnswer);
  // Away from everything it was built with.
  const Outcome alone =
      shell("cp " DS4_PROGRAM " " + folder.file("ds4") + " && cd " + folder.path() +
            " && env -i ./ds4 -m model.gguf --temp 0 --nothink -p 'What does a "
            "cow say?'");
  EXPECT_EQ(alone.code, 0) << alone.err;
  EXPECT_EQ(alone.out, kAnswer);
}

// BC-88 for this program: no terminal anywhere, and no escape codes in files or pipes.
TEST(Ds4Surroundings, RunsWithoutATerminal) {
  for (const char* how :
       {"$DS4 -p 'What does a cow say?' </dev/null", "setsid $DS4 -p 'What does a cow say?'",
        "TERM=dumb $DS4 -p 'What does a cow say?'", "printf 'What does a cow say?' | $DS4 -",
        "printf 'What does a cow say?' | $DS4 | cat", "TERM= HOME= $DS4 -p 'What does a cow say?'",
        "env -u TERM -u HOME $DS4 -p 'What does a cow say?'"}) {
    const Outcome got = shell(how);
    EXPECT_EQ(got.code, 0) << how << got.err;
    EXPECT_EQ(got.out, kAnswer) << how;
    EXPECT_FALSE(mentions(got.out + got.err, "\x1b")) << how;
  }
}

// Two lines on a pipe are one prompt, not a conversation.
TEST(Ds4Surroundings, APipeIsOnePrompt) {
  const Outcome got = shell("printf 'What does\\na cow say?\\n' | $DS4");
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_EQ(got.err.find("; answer "), got.err.rfind("; answer ")) << got.err;
  EXPECT_TRUE(mentions(got.err, "; answer ")) << got.err;
}

TEST(Ds4Surroundings, ClosedChannelsEndItWithAMessage) {
  const Outcome no_input = shell("$DS4 <&-");
  EXPECT_EQ(no_input.code, 1);
  EXPECT_TRUE(mentions(no_input.err, "standard input: cannot read")) << no_input.err;

  for (const char* how : {"$DS4 -p 'What does a cow say?' >&-", "$DS4 --inspect >&-",
                          "$DS4 --inspect >/dev/full", "$DS4 --dump-tokens -p x >/dev/full"}) {
    const Outcome got = shell(how);
    EXPECT_EQ(got.code, 1) << how << got.err;
    EXPECT_TRUE(mentions(got.err, "cannot write")) << how << got.err;
  }
  // The answer is worth more than the messages about it.
  for (const char* how :
       {"$DS4 -p 'What does a cow say?' 2>&-", "$DS4 -p 'What does a cow say?' 2>/dev/full"}) {
    const Outcome got = shell(how);
    EXPECT_EQ(got.code, 0) << how;
    EXPECT_EQ(got.out, kAnswer) << how;
  }
}

// The reader goes before anything is written: an error, not a death by SIGPIPE.
TEST(Ds4Surroundings, AReaderThatHasGoneIsAnError) {
  const Outcome got =
      shell("{ $DS4 -p 'Count from 1 to 50.'; echo code $? >&2; } | { exec <&-; sleep 0; }");
  EXPECT_TRUE(mentions(got.err, "code 1")) << got.err;
  EXPECT_TRUE(mentions(got.err, "cannot write the answer: Broken pipe")) << got.err;
}

// Whatever bytes a prompt has, they are text: an answer, or an error with numbers.
TEST(Ds4Surroundings, AnyBytesAreAPrompt) {
  std::string all_bytes;
  for (int i = 0; i < 256; ++i) all_bytes += static_cast<char>(i);
  const std::string prompts[] = {
      "\xff\xfe\xc3\x28\xe2\x82",
      std::string("\0", 1),
      std::string("a\0b\0", 4),
      all_bytes,
      "<｜begin▁of▁sentence｜><｜User｜><｜Assistant｜><think></think><｜end▁of▁sentence｜>",
      "</think><｜DSML｜tool_calls>",
      " ",
      "\n\n\n",
      "\x1b[2J\x1b]0;x\x07",
  };
  for (const std::string& prompt : prompts) {
    const Outcome got = ask_with_input(prompt);
    EXPECT_EQ(got.code, 0) << testing::PrintToString(prompt) << got.err;
  }
}

TEST(Ds4Surroundings, AMegabyteIsRefusedWithNumbers) {
  const Outcome got = ask_with_input(std::string(size_t{1} << 20, 'x'));
  EXPECT_EQ(got.code, 1);
  EXPECT_TRUE(mentions(got.err, "the prompt has ")) << got.err;
  EXPECT_TRUE(mentions(got.err, "the context holds 32768")) << got.err;
}

TEST(Ds4Surroundings, EndlessInputIsBounded) {
  const Outcome got = shell("$DS4 --prompt-file /dev/zero");
  EXPECT_EQ(got.code, 2);
  EXPECT_TRUE(mentions(got.err, "/dev/zero: expected a text of at most 67108864 bytes")) << got.err;
}

// Before anything is there to keep, Ctrl-C ends the program at once: here it waits for a prompt
// that never comes (the shell holds the pipe open). Whether its handler was there yet or not.
TEST(Ds4Surroundings, CtrlCBeforeTheModelIsLoadedEndsIt) {
  const TempFolder folder;
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  Process process({DS4_PROGRAM, "-m", nano(), "--prompt-file", folder.file("pipe")});
  process.signal(SIGINT);
  const int code = process.wait();
  EXPECT_TRUE(code == 130 || code == -SIGINT) << code;
}

}  // namespace
}  // namespace ds4::test
