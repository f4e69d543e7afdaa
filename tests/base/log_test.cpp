// Lines go to stderr with their room and level, and those below the level cost no formatting.
#include "base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace ds4 {
namespace {

// Puts the default level back, so that tests do not depend on their order.
struct Log : testing::Test {
  ~Log() override { log::set_level(log::Level::kWarn); }
};

TEST_F(Log, WarningsPassByDefaultAndDetailDoesNot) {
  testing::internal::CaptureStderr();
  log::info("quant", "quiet {}", 1);
  log::warn("quant", "loud {}", 2);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.find("quiet"), std::string::npos);
  EXPECT_NE(text.find("warning quant: loud 2\n"), std::string::npos) << text;
}

TEST_F(Log, LevelsOrderTheLines) {
  using log::Level;
  const Level levels[] = {Level::kDebug, Level::kInfo, Level::kWarn, Level::kError, Level::kOff};
  for (int set = 0; set < 5; ++set) {
    log::set_level(levels[set]);
    for (int line = 0; line < 4; ++line) EXPECT_EQ(log::enabled(levels[line]), line >= set);
  }
}

// Braces in a message, as JSON from a client has, are text and no format.
TEST_F(Log, MessagesAreNotFormattedTwice) {
  testing::internal::CaptureStderr();
  log::error("server", "body {}", "{\"a\": {}}");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("body {\"a\": {}}"), std::string::npos);
}

TEST_F(Log, LinesFromThreadsStayWhole) {
  testing::internal::CaptureStderr();
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([t] {
        for (int i = 0; i < 50; ++i)
          log::warn("test", "<{}>", std::string(100, static_cast<char>('a' + t)));
      });
    }
  }
  const std::string text = testing::internal::GetCapturedStderr();
  size_t n_lines = 0;
  for (size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    ASSERT_EQ(text.substr(at + 1, 100), std::string(100, text[at + 1]));
    ASSERT_EQ(text.substr(at + 101, 2), ">\n");
    ++n_lines;
  }
  EXPECT_EQ(n_lines, 200u);
}

}  // namespace
}  // namespace ds4
