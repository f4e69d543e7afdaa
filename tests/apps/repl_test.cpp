// The conversation of ds4: turns, commands, Ctrl-C, what goes where.
#include <sys/stat.h>

#include <csignal>

#include "tests/apps/repl_fixture.h"

namespace ds4::test {
namespace {

TEST_F(Repl, AnswersAndReadsOnlyWhatIsNewInTheNextTurn) {
  const auto ds4 = start();
  ASSERT_TRUE(ds4->wait_for(kPrompt)) << ds4->screen();
  const std::string first = say(*ds4, "What is the capital of Japan?");
  EXPECT_TRUE(mentions(first, "The capital of Japan is Tokyo.")) << first;
  EXPECT_EQ(number_before(first, " reused"), 0) << first;
  const int64_t used = number_before(first, " of 32768");
  EXPECT_GT(used, 10) << first;
  const std::string second = say(*ds4, "What does a cow say?");
  EXPECT_TRUE(mentions(second, "A cow says \"moo\".")) << second;
  EXPECT_EQ(number_before(second, " reused"), used) << second;
  EXPECT_LT(number_before(second, " tokens read"), used) << second;
  leave(*ds4);
}

TEST_F(Repl, ThinkingIsDimAndApartFromTheAnswer) {
  const auto ds4 = start({}, {}, "--think");
  ASSERT_TRUE(ds4->wait_for(kPrompt));
  const std::string shown = say(*ds4, "What is 23 + 14?");
  EXPECT_TRUE(mentions(shown, "\x1b[2m23 + 14: ones")) << shown;
  EXPECT_TRUE(mentions(shown, "\x1b[0m\r\n\r\n23 + 14 = 37")) << shown;
  const std::string next = say(*ds4, "What is the capital of Japan?");
  EXPECT_TRUE(mentions(next, "The capital of Japan is Tokyo.")) << next;
  leave(*ds4);
}

// The reasoning of a turn is dropped from the history of the next; what came before the answer is
// still there, in a snapshot (none is made in the first 64 tokens).
TEST_F(Repl, WhatCameBeforeDroppedReasoningIsNotReadAgain) {
  const auto ds4 = start({"-n", "20"}, {}, "--think");
  ASSERT_TRUE(ds4->wait_for(kPrompt));
  std::string question;
  for (int i = 0; i < 20; ++i) question += "A fox had a lantern. ";
  const int64_t read = number_before(say(*ds4, question), " tokens read");
  EXPECT_GT(read, 64);
  const std::string next = say(*ds4, "What does a cow say?");
  EXPECT_GE(number_before(next, " reused"), read - 2) << next;
  leave(*ds4);
}

TEST_F(Repl, TheTimeOfEachOperationIsPrintedAtTheEnd) {
  const auto ds4 = start({"--profile-ops"});
  ASSERT_TRUE(ds4->wait_for(kPrompt));
  say(*ds4, "What does a cow say?");
  ds4->type("/quit\n");
  EXPECT_EQ(ds4->wait(), 0);
  const std::string screen = ds4->screen();
  const size_t prefill = screen.find("prefill, time of each operation:");
  const size_t decode = screen.find("decode, time of each operation:");
  ASSERT_LT(prefill, decode) << screen;
  ASSERT_NE(decode, std::string::npos) << screen;
  for (const size_t from : {prefill, decode}) {
    const size_t at = screen.find("attention", from);
    EXPECT_TRUE(at != std::string::npos && (from == decode || at < decode)) << screen;
  }
}

// Modes, status, system text and a new context, one after the other in one session.
TEST_F(Repl, EveryCommandDoesWhatItsHelpSays) {
  const auto ds4 = start();
  ASSERT_TRUE(ds4->wait_for(kPrompt));
  const std::string help = say(*ds4, "/help");
  for (const char* name : {"/help", "/think", "/think-max", "/nothink", "/ctx N", "/read FILE",
                           "/status", "/system TEXT", "/reset", "/quit", "/exit"}) {
    EXPECT_TRUE(mentions(help, std::string("  ") + name + " ")) << name << " in " << help;
  }
  EXPECT_TRUE(mentions(say(*ds4, "/status"), "0 of 32768 tokens used"));
  EXPECT_TRUE(mentions(say(*ds4, "/think"), "thinking from the next message on"));
  const std::string thought = say(*ds4, "What is the capital of Japan?");
  EXPECT_TRUE(mentions(thought, "The user asks for the capital of Japan.")) << thought;
  EXPECT_TRUE(mentions(say(*ds4, "/nothink"), "no thinking"));
  EXPECT_FALSE(mentions(say(*ds4, "What does a cow say?"), "The user"));
  EXPECT_TRUE(mentions(say(*ds4, "/think-max"), "effort max"));
  std::string status = say(*ds4, "/status");
  for (const char* part : {"DeepSeek V4 Nano on cpu", "thinking, effort max", "(none)",
                           "turns    2", "KV cache", "last     prompt"}) {
    EXPECT_TRUE(mentions(status, part)) << part << " in " << status;
  }
  EXPECT_TRUE(mentions(say(*ds4, "/system You are a pirate."), "a new conversation begins"));
  status = say(*ds4, "/status");
  EXPECT_TRUE(mentions(status, "You are a pirate.")) << status;
  EXPECT_TRUE(mentions(status, "turns    0")) << status;
  EXPECT_TRUE(mentions(say(*ds4, "/system"), "no system text"));
  EXPECT_TRUE(mentions(say(*ds4, "/nothink"), "no thinking"));
  EXPECT_TRUE(mentions(say(*ds4, "/ctx 500"), "context 500 tokens; the conversation is lost"));
  EXPECT_TRUE(mentions(say(*ds4, "Who are you?"), " of 500"));
  EXPECT_TRUE(mentions(say(*ds4, "/reset"), "a new conversation begins"));
  EXPECT_TRUE(mentions(say(*ds4, "/status"), "0 of 500 tokens used"));
  ds4->type("/exit\n");
  EXPECT_EQ(ds4->wait(), 0);
}

// BC-90. After every one of them the conversation is still there.
TEST_F(Repl, ATypoInACommandNeverEndsTheSession) {
  PtyOptions options;
  // Room for the program and two small contexts; one of 1048576 tokens takes 506 MiB by itself.
#ifndef DS4_SANITIZED
  options.memory_bytes_max = int64_t{3} << 28;
#endif
  const auto ds4 = start({}, options);
  ASSERT_TRUE(ds4->wait_for(kPrompt)) << ds4->screen();
  const int64_t used = number_before(say(*ds4, "Who are you?"), " of 32768");
  const fs::path folder = home();
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::ofstream(folder / "empty");
  std::vector<std::pair<std::string, std::string>> cases = {
      {"/ctx", "/ctx: expected /ctx N"},
      {"/ctx abc", "expected a number of tokens from 1 to 1048576, found 'abc'"},
      {"/ctx -5", "found '-5'"},
      {"/ctx 0", "found '0'"},
      {"/ctx 12x", "found '12x'"},
      {"/ctx 99999999999", "found '99999999999'"},
      {"/ctx 99999999999999999999999", "found '99999999999999999999999'"},
      {"/ctx 1048577", "found '1048577'"},
      {"/read", "/read: expected /read FILE"},
      {"/read " + (folder / "missing.txt").string(), "No such file"},
      {"/read /dev/zero", "expected a file, found a device"},
      {"/read " + folder.string(), "expected a file, found a folder"},
      {"/read " + (folder / "pipe").string(), "expected a file, found a pipe"},
      {"/read " + (folder / "empty").string(), "the file is empty"},
      {"/unknown", "unknown command '/unknown'; it was not sent"},
      {"/", "unknown command '/'"},
      {"/switch ../../etc/passwd", "unknown command '/switch'"},
      {"/quit now", "/quit takes nothing, found 'now'"},
      {"/reset please", "/reset takes nothing"},
  };
#ifndef DS4_SANITIZED
  cases.emplace_back("/ctx 1048576", "nothing changed");
#endif
  for (const auto& [line, message] : cases) {
    const std::string got = say(*ds4, line);
    EXPECT_TRUE(mentions(got, message)) << line << ": " << got;
    EXPECT_FALSE(mentions(got, "; answer ")) << line << " was sent to the model: " << got;
  }
  const std::string next = say(*ds4, "What does a cow say?");
  EXPECT_TRUE(mentions(next, "moo")) << next;
  EXPECT_EQ(number_before(next, " reused"), used) << next;
  leave(*ds4);
}

TEST_F(Repl, ReadSendsAFileAndASpaceSendsASlash) {
  const fs::path file = fs::path(home()) / "question.txt";
  std::ofstream(file) << "What is the capital of Japan?";
  const auto ds4 = start();
  ASSERT_TRUE(ds4->wait_for(kPrompt));
  EXPECT_TRUE(mentions(say(*ds4, "/read " + file.string()), "The capital of Japan is Tokyo."));
  EXPECT_TRUE(mentions(say(*ds4, " /etc is what?"), "; answer "));
  leave(*ds4);
}

// A file too large for the context is refused with numbers; what was said before stays.
TEST_F(Repl, AMessageThatDoesNotFitIsRefusedAndTheSessionStays) {
  const fs::path file = fs::path(home()) / "large.txt";
  std::ofstream(file) << std::string(20000, 'a');
  const auto ds4 = start({"-c", "200"});
  ASSERT_TRUE(ds4->wait_for(kPrompt));
  const int64_t used = number_before(say(*ds4, "Who are you?"), " of 200");
  const std::string refused = say(*ds4, "/read " + file.string());
  EXPECT_TRUE(mentions(refused, "not sent: the prompt has ")) << refused;
  EXPECT_TRUE(mentions(refused, "the context holds 200")) << refused;
  EXPECT_TRUE(mentions(refused, "/ctx N")) << refused;
  EXPECT_EQ(number_before(say(*ds4, "What does a cow say?"), " reused"), used);
  leave(*ds4);
}

TEST_F(Repl, AContextThatRunsFullEndsTheTurnAndSaysWhatToDo) {
  const auto ds4 = start({"-c", "40"});
  ASSERT_TRUE(ds4->wait_for(kPrompt));
  const std::string cut = say(*ds4, "Tell me a story about a fox and a lantern.");
  EXPECT_TRUE(mentions(cut, "the context is full: 40 of 40 tokens are used")) << cut;
  EXPECT_TRUE(mentions(cut, "/reset starts over, /ctx N")) << cut;
  const std::string next = say(*ds4, "And then?");
  EXPECT_TRUE(mentions(next, "not sent: the prompt has ")) << next;
  EXPECT_TRUE(mentions(say(*ds4, "/reset"), "a new conversation begins"));
  EXPECT_TRUE(mentions(say(*ds4, "What does a cow say?"), "moo"));
  leave(*ds4);
}

TEST_F(Repl, CtrlCAtThePromptClearsTheLine) {
  const auto ds4 = start();
  ASSERT_TRUE(ds4->wait_for(kPrompt));
  for (int i = 0; i < 3; ++i) {
    ds4->type("Count from 3 to 8, ");
    ASSERT_TRUE(ds4->wait_for("to 8, "));
    ds4->type(kCtrlC);
    ASSERT_TRUE(ds4->wait_for("^C")) << ds4->screen();
    ASSERT_TRUE(ds4->wait_for(kPrompt)) << ds4->screen();
  }
  EXPECT_TRUE(mentions(say(*ds4, "What does a cow say?"), "moo"));
  leave(*ds4);
}

// The partial answer is part of the conversation: the next turn continues from its tokens.
TEST_F(Repl, CtrlCWhileAnsweringKeepsWhatWasSaid) {
  const auto ds4 = start();
  ASSERT_TRUE(ds4->wait_for(kPrompt));
  ds4->type("Count from 1 to 300.\n");
  ASSERT_TRUE(ds4->wait_for("7, 8, ")) << ds4->screen();
  ds4->type(kCtrlC);
  ASSERT_TRUE(ds4->wait_for("; interrupted")) << ds4->screen();
  ASSERT_TRUE(ds4->wait_for(kPrompt));
  EXPECT_TRUE(mentions(say(*ds4, "/status"), "turns    1"));
  const std::string next = say(*ds4, "What does a cow say?");
  EXPECT_GT(number_before(next, " reused"), 20) << next;
  leave(*ds4);
}

// The reference backend reads slowly enough for the progress line, which comes after a second.
TEST_F(Repl, CtrlCWhileReadingTakesTheMessageBack) {
  const fs::path file = fs::path(home()) / "long.txt";
  std::ofstream text(file);
  for (int i = 0; i < 4000; ++i) text << "word " << i << " ";
  text.close();
  const auto ds4 = start({"--backend", "reference", "-t", "1", "--prefill-chunk", "8"});
  ASSERT_TRUE(ds4->wait_for(kPrompt));
  ds4->type("/read " + file.string() + "\n");
  ASSERT_TRUE(ds4->wait_for("reading the prompt: ")) << ds4->screen();
  ds4->type(kCtrlC);
  ASSERT_TRUE(ds4->wait_for("the message was taken back")) << ds4->screen();
  ASSERT_TRUE(ds4->wait_for(kPrompt));
  EXPECT_TRUE(mentions(say(*ds4, "/status"), "turns    0"));
  leave(*ds4);
}

// One chunk of thousands of tokens on the slow backend: the first Ctrl-C cannot be honoured before
// it is done, so another one ends the program. Typed until it has ended, because two that come
// together count as one.
TEST_F(Repl, ASecondCtrlCEndsTheProgram) {
  const fs::path file = fs::path(home()) / "long.txt", trace = fs::path(home()) / "trace";
  std::ofstream text(file);
  for (int i = 0; i < 4000; ++i) text << "word " << i << " ";
  text.close();
  const auto ds4 = start(
      {"--backend", "reference", "-t", "1", "--prefill-chunk", "20000", "--trace", trace.string()});
  ASSERT_TRUE(ds4->wait_for(kPrompt));
  ds4->type("/read " + file.string() + "\n");
  while (ds4->running() && !mentions(read_file(trace), "\"event\":\"prompt\"")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  while (ds4->running()) {
    ds4->type(kCtrlC);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(ds4->wait(), -SIGINT);
}

TEST_F(Repl, CtrlDAndATerminalThatGoesAwayLeave) {
  const auto ds4 = start();
  ASSERT_TRUE(ds4->wait_for(kPrompt));
  ds4->type(kCtrlD);
  EXPECT_EQ(ds4->wait(), 0) << ds4->screen();

  const auto other = start();
  ASSERT_TRUE(other->wait_for(kPrompt));
  other->signal(SIGTERM);
  EXPECT_EQ(other->wait(), 130) << other->screen();
}

// Names a person typed and files they named come back on the screen without steering it.
TEST_F(Repl, ControlCharactersAreShownNotObeyed) {
  const fs::path file = fs::path(home()) / "steer.txt";
  std::ofstream(file) << "\x1b]0;title\x07 \x9b 31m \xc2\x9b 2J hello";
  const auto ds4 = start({"-n", "8"});
  ASSERT_TRUE(ds4->wait_for(kPrompt));
  const std::string got = say(*ds4, "/read " + file.string());
  EXPECT_FALSE(mentions(got, "\x1b]")) << got;
  EXPECT_FALSE(mentions(got, "\xc2\x9b")) << got;
  EXPECT_FALSE(mentions(got, "\x07")) << got;
  leave(*ds4);
}

TEST_F(Repl, AnswersGoToStandardOutputAloneAndAFullDiskEndsTheProgram) {
  PtyOptions options;
  options.out_path = home() + "/answers";
  const auto ds4 = start({}, options);
  ASSERT_TRUE(ds4->wait_for(kPrompt)) << ds4->screen();
  say(*ds4, "What is the capital of Japan?");
  say(*ds4, "What does a cow say?");
  leave(*ds4);
  EXPECT_EQ(read_file(options.out_path), "The capital of Japan is Tokyo.\nA cow says \"moo\".\n");

  options.out_path = "/dev/full";
  const auto full = start({}, options);
  ASSERT_TRUE(full->wait_for(kPrompt));
  full->type("What does a cow say?\n");
  EXPECT_EQ(full->wait(), 1) << full->screen();
  EXPECT_TRUE(mentions(full->screen(), "cannot write the answer")) << full->screen();
}

}  // namespace
}  // namespace ds4::test
