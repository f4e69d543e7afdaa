// The line of the conversation: kinds of terminals, locales, pastes, history.
#include <sys/stat.h>

#include <algorithm>
#include <csignal>

#include "tests/apps/repl_fixture.h"

namespace ds4::test {
namespace {

// Wrapped lines, no escape sequences, other locales: the line is understood in all of them.
TEST_F(Repl, NarrowAndDumbTerminalsAndOldLocalesWork) {
  PtyOptions narrow;
  narrow.columns = 20;
  PtyOptions dumb;
  dumb.environment = {{"TERM", "dumb"}};
  PtyOptions unknown;
  unknown.environment = {{"TERM", "no-such-terminal"}};
  PtyOptions old_locale;
  old_locale.environment = {{"LC_ALL", "C"}};
  PtyOptions missing_locale;
  missing_locale.environment = {{"LC_ALL", "xx_YY.ISO-8859-1"}};
  for (const PtyOptions& options : {narrow, dumb, unknown, old_locale, missing_locale}) {
    const auto ds4 = start({}, options);
    ASSERT_TRUE(ds4->wait_for(kPrompt)) << ds4->screen();
    EXPECT_TRUE(mentions(say(*ds4, "What is the capital of Japan?"), "Tokyo")) << ds4->screen();
    leave(*ds4);
  }
}

TEST_F(Repl, ADumbTerminalGetsNoEscapeSequences) {
  PtyOptions options;
  options.environment = {{"TERM", "dumb"}};
  const auto ds4 = start({}, options, "--think");
  ASSERT_TRUE(ds4->wait_for(kPrompt));
  EXPECT_TRUE(mentions(say(*ds4, "What is the capital of Japan?"), "Tokyo"));
  leave(*ds4);
  EXPECT_FALSE(mentions(ds4->screen(), "\x1b")) << ds4->screen();
}

TEST_F(Repl, CharactersBeyondAsciiArriveInAnyLocale) {
  for (const char* locale : {"C", "C.UTF-8"}) {
    const fs::path trace = fs::path(home()) / "trace";
    PtyOptions options;
    options.environment = {{"LC_ALL", locale}};
    const auto ds4 = start({"--trace", trace.string(), "-n", "1"}, options);
    ASSERT_TRUE(ds4->wait_for(kPrompt));
    say(*ds4, "/system Größe 😀 漢字");
    leave(*ds4);
    EXPECT_TRUE(mentions(read_file(trace), "\"line\":\"/system Größe 😀 漢字\"")) << locale;
  }
}

TEST_F(Repl, AWindowThatChangesItsSizeKeepsTheLine) {
  const auto ds4 = start();
  ASSERT_TRUE(ds4->wait_for(kPrompt));
  ds4->type("What does a ");
  ASSERT_TRUE(ds4->wait_for("What does a "));
  ds4->resize(30, 10);
  EXPECT_TRUE(mentions(say(*ds4, "cow say?"), "moo")) << ds4->screen();
  leave(*ds4);
}

// After Ctrl-Z and fg the shell has put its own modes into the terminal: the line is shown again
// and keys work.
TEST_F(Repl, AStopAndAContinueKeepTheLine) {
  const auto ds4 = start();
  ASSERT_TRUE(ds4->wait_for(kPrompt));
  ds4->type("What does a ");
  ASSERT_TRUE(ds4->wait_for("What does a "));
  ds4->signal(SIGCONT);
  ASSERT_TRUE(ds4->wait_for("What does a ")) << ds4->screen();
  EXPECT_TRUE(mentions(say(*ds4, "cow say?"), "moo")) << ds4->screen();
  leave(*ds4);
}

TEST_F(Repl, LinesGoOnAfterABackslashAndPastesAreOneMessage) {
  const fs::path trace = fs::path(home()) / "trace";
  const auto ds4 = start({"-n", "1", "--trace", trace.string()});
  ASSERT_TRUE(ds4->wait_for(kPrompt));
  ds4->type("/system one\\\n");
  ASSERT_TRUE(ds4->wait_for("...> "));
  EXPECT_TRUE(mentions(say(*ds4, "two"), "new system text"));
  ds4->type("/system \x1b[200~red\rgreen\nblue\x1b[201~");
  ASSERT_TRUE(ds4->wait_for("blue"));
  EXPECT_TRUE(mentions(say(*ds4, "."), "new system text"));
  leave(*ds4);
  const std::string events = read_file(trace);
  EXPECT_TRUE(mentions(events, R"("line":"/system one\ntwo")")) << events;
  EXPECT_TRUE(mentions(events, R"("line":"/system red\ngreen\nblue.")")) << events;
}

TEST_F(Repl, HistoryIsPrivateBoundedAndComesBack) {
  const fs::path file = fs::path(home()) / ".ds4_history";
  {
    std::ofstream old(file);
    for (int i = 0; i < 1500; ++i) old << "old " << i << "\n";
  }
  const auto first = start();
  ASSERT_TRUE(first->wait_for(kPrompt));
  say(*first, "/system back\\\nslash");
  leave(*first);
  struct stat info = {};
  ASSERT_EQ(::stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const std::string text = read_file(file);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1000);
  EXPECT_TRUE(text.ends_with("/system back\\nslash\n/quit\n")) << text.substr(text.size() - 60);

  const auto second = start();
  ASSERT_TRUE(second->wait_for(kPrompt));
  second->type("\x1b[A\x1b[A");  // two lines up: past /quit
  ASSERT_TRUE(second->wait_for("slash")) << second->screen();
  second->type("\n");
  EXPECT_TRUE(second->wait_for("new system text")) << second->screen();
  leave(*second);
}

TEST_F(Repl, AHomeThatCannotBeWrittenIsNoError) {
  for (const char* path : {"/proc", "/no/such/folder", "/dev/null"}) {
    PtyOptions options;
    options.environment = {{"HOME", path}};
    const auto ds4 = start({}, options);
    ASSERT_TRUE(ds4->wait_for(kPrompt)) << path;
    EXPECT_TRUE(mentions(say(*ds4, "/reset"), "a new conversation begins")) << path;
    leave(*ds4);
  }
}

}  // namespace
}  // namespace ds4::test
