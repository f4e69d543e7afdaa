// ds4 and memory: the plan is said and kept, and what cannot fit is refused before it is tried.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "base/byte_size.h"
#include "base/control_group.h"
#include "tests/support/process.h"

namespace ds4::test {
namespace {

namespace fs = std::filesystem;

const std::string kNano = std::string(DS4_BINARY_DIR) + "/nano/nano-q8_0.gguf";

struct Outcome {
  int code = -1;
  std::string out, err;
  int64_t max_rss_bytes = 0;
};

Outcome run_command(std::vector<std::string> command) {
  Process process(std::move(command));
  Outcome outcome;
  outcome.code = process.wait();
  outcome.out = process.out();
  outcome.err = process.err();
  outcome.max_rss_bytes = process.max_rss_bytes();
  return outcome;
}

std::vector<std::string> ds4(std::vector<std::string> more) {
  std::vector<std::string> command = {DS4_PROGRAM, "-m", kNano, "--temp", "0", "--nothink"};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

// The same below a shell that first runs `setup`.
[[maybe_unused]] std::vector<std::string> ds4_after(const std::string& setup,
                                                    std::vector<std::string> more) {
  std::vector<std::string> command = {"/bin/sh", "-c", setup + R"( && exec "$0" "$@")"};
  for (std::string& word : ds4(std::move(more))) command.push_back(std::move(word));
  return command;
}

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// First match of a size ("205.0 MiB") or number behind `before`.
[[maybe_unused]] int64_t size_behind(const std::string& text, const std::string& before) {
  std::smatch match;
  const std::regex pattern(before + R"(([0-9.]+) (GiB|MiB|bytes))");
  EXPECT_TRUE(std::regex_search(text, match, pattern)) << before << " in " << text;
  if (match.empty()) return -1;
  const std::string unit = match[2].str();
  return *parse_byte_size(match[1].str() + (unit == "bytes" ? "" : unit));
}

const std::vector<std::string> kLongAnswer = {"--raw-prompt",
                                              "-p",
                                              "Once upon a time there was a king who",
                                              "-n",
                                              "600",
                                              "-c",
                                              "1024",
                                              "--prefill-chunk",
                                              "64",
                                              "-t",
                                              "2"};

TEST(Memory, AContextThatCannotFitIsRefusedWithTheOneThatCan) {
  const Outcome refused = run_command(ds4({"-p", "x", "-c", "1048576", "--mem-limit", "300M"}));
  EXPECT_EQ(refused.code, 1);
  EXPECT_EQ(refused.out, "");
  EXPECT_TRUE(mentions(refused.err,
                       "expected at most 300.0 MiB (limit --mem-limit 300M), the plan "
                       "needs "))
      << refused.err;
  EXPECT_TRUE(mentions(refused.err, "at 1048576 tokens")) << refused.err;
  EXPECT_LE(refused.max_rss_bytes, int64_t{100} << 20) << "nothing big was tried";
  std::smatch match;
  ASSERT_TRUE(
      std::regex_search(refused.err, match, std::regex(R"(fits is \d+ tokens \(-c (\d+)\))")))
      << refused.err;
  const Outcome fits =
      run_command(ds4({"-p", "Count from 3 to 8.", "-c", match[1].str(), "--mem-limit", "300M"}));
  EXPECT_EQ(fits.code, 0) << fits.err;
  EXPECT_EQ(fits.out, "3, 4, 5, 6, 7, 8\n");
}

TEST(Memory, OddContextsAndLimitsAreErrorsWithNumbers) {
  for (const char* ctx : {"0", "-1", "2000000"}) {
    const Outcome got = run_command(ds4({"-p", "x", "-c", ctx, "--mem-limit", "300M"}));
    EXPECT_EQ(got.code, 1);
    EXPECT_TRUE(mentions(got.err, "expected 1 .. 1048576 tokens, found " + std::string(ctx)))
        << got.err;
  }
  const Outcome wrong = run_command(ds4({"-p", "x", "--mem-limit", "8X"}));
  EXPECT_EQ(wrong.code, 2);
  EXPECT_TRUE(mentions(wrong.err, "--mem-limit: expected a size such as 8G, 512M")) << wrong.err;
  const Outcome tiny = run_command(ds4({"-p", "x", "--mem-limit", "1M"}));
  EXPECT_EQ(tiny.code, 1);
  EXPECT_TRUE(mentions(tiny.err, "no context fits")) << tiny.err;
}

TEST(Memory, InspectAndVerboseShowThePlan) {
  const Outcome inspect =
      run_command({DS4_PROGRAM, "-m", kNano, "--inspect", "--mem-limit", "90M"});
  EXPECT_EQ(inspect.code, 0) << inspect.err;
  EXPECT_TRUE(mentions(inspect.out, "KV cache ")) << inspect.out;
  EXPECT_TRUE(mentions(inspect.out, "expected at most 90.0 MiB")) << inspect.out;
  const Outcome verbose = run_command(ds4({"-p", "Hello, my friend!", "-v"}));
  for (const char* part : {"weights", "workspace", "scratch", "headroom", "MemAvailable"}) {
    EXPECT_TRUE(mentions(verbose.err, part)) << part << " in " << verbose.err;
  }
}

// Copies of weights take what is left and never the place of a context: with room for a part of
// them the plan says less and still fits, with none they are gone, and the answer is the same.
TEST(Memory, CopiesOfWeightsTakeWhatIsLeft) {
  const auto run = [](std::vector<std::string> flags) {
    flags.insert(flags.end(), {"-p", "Count from 3 to 8.", "-c", "4096"});
    return run_command(ds4(flags));
  };
  const auto repacked = [](const Outcome& got) {
    std::smatch match;
    if (!std::regex_search(got.err, match, std::regex(R"(repacked ([0-9.]+) MiB)"))) return 0.0;
    return std::stod(match[1].str());
  };
  const Outcome all = run({}), none = run({"--repack", "0"});
  ASSERT_EQ(all.code, 0) << all.err;
  ASSERT_EQ(none.code, 0) << none.err;
  EXPECT_GT(repacked(all), 20.0) << all.err;
  EXPECT_EQ(repacked(none), 0.0) << none.err;
  std::smatch total;
  ASSERT_TRUE(std::regex_search(none.err, total, std::regex(R"(memory ([0-9]+)\.[0-9] MiB)")))
      << none.err;
  const int64_t base_mib = std::stoll(total[1].str());
  const Outcome some = run({"--mem-limit", std::to_string(base_mib + 11) + "M"});
  EXPECT_EQ(some.code, 0) << some.err;
  EXPECT_GT(repacked(some), 5.0) << some.err;
  EXPECT_LT(repacked(some), 12.0) << some.err;
  EXPECT_EQ(some.out, all.out);
  EXPECT_EQ(none.out, all.out);
  for (const char* wrong : {"8X", "-1", ""}) {
    const Outcome got = run({"--repack", wrong});
    EXPECT_EQ(got.code, 2) << wrong;
    EXPECT_TRUE(mentions(got.err, "--repack: expected a size such as 8G, 512M")) << got.err;
  }
}

#ifndef DS4_SANITIZED  // a sanitizer's own memory is in these figures

// The printed total is an upper bound of what the process really has in memory, weights included.
TEST(Memory, ThePlanIsKept) {
  const Outcome got = run_command(ds4(kLongAnswer));
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_TRUE(mentions(got.err, "answer 600 tokens")) << got.err;
  const int64_t planned = size_behind(got.err, "memory ");
  EXPECT_LE(got.max_rss_bytes, planned + planned / 20) << got.err;
  EXPECT_GE(got.max_rss_bytes, planned / 3)
      << "a plan that is far too large refuses what would fit";
}

// The same as a hard limit: the data the process allocates, touched or not, within the plan.
TEST(Memory, ThePlanIsEnoughAsAHardLimitOnData) {
  const int64_t planned = size_behind(run_command(ds4(kLongAnswer)).err, "memory ");
  const std::string limit = "ulimit -d " + std::to_string(planned / 1024 + 1024);
  const Outcome got = run_command(ds4_after(limit, kLongAnswer));
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_TRUE(mentions(got.err, "answer 600 tokens")) << got.err;
}

TEST(Memory, LimitsOfTheProcessAreNamedInTheRefusal) {
  const std::vector<std::string> million = {"-p", "x", "-c", "1048576"};
  const Outcome space = run_command(ds4_after("ulimit -v 600000", million));
  EXPECT_EQ(space.code, 1) << space.err;
  EXPECT_TRUE(mentions(space.err, "(address space limit, ulimit -v), the plan needs "))
      << space.err;
  const Outcome data = run_command(ds4_after("ulimit -d 400000", million));
  EXPECT_EQ(data.code, 1) << data.err;
  EXPECT_TRUE(mentions(data.err, "(data limit, ulimit -d), the plan needs ")) << data.err;
}

// A control group of its own below this process's, where the system lets us make one.
class Group {
 public:
  explicit Group(int64_t limit_bytes) {
    ControlGroup own;  // the innermost that has a memory controller
    for (const ControlGroup& group : control_groups("memory")) {
      const bool v2 = group.version == 2;
      if (own.folder.empty() &&
          fs::exists(group.folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes"))) {
        own = group;
      }
    }
    if (own.folder.empty()) return;
    path_ = own.folder + "/ds4-test-" + std::to_string(getpid());
    std::error_code failed;
    if (!fs::create_directory(path_, failed)) {
      path_.clear();
      return;
    }
    const char* file = own.version == 2 ? "/memory.max" : "/memory.limit_in_bytes";
    std::ofstream stream(path_ + file);
    stream << limit_bytes << std::flush;
    usable_ = stream.good();
  }
  ~Group() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove(path_, ignored);
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  bool usable() const { return usable_; }
  std::string enter() const { return "echo $$ > " + path_ + "/cgroup.procs"; }

 private:
  std::string path_;
  bool usable_ = false;
};

TEST(Memory, AControlGroupIsSeenAndThePlanFitsIntoIt) {
  const int64_t planned = size_behind(run_command(ds4(kLongAnswer)).err, "memory ");
  const Group group(planned + planned / 20);
  if (!group.usable()) GTEST_SKIP() << "no control group can be made here; ulimit -d stands for it";
  const Outcome got = run_command(ds4_after(group.enter(), kLongAnswer));
  EXPECT_EQ(got.code, 0) << got.err;
  const Outcome refused = run_command(ds4_after(group.enter(), {"-p", "x", "-c", "1048576"}));
  EXPECT_EQ(refused.code, 1) << refused.err;
  EXPECT_TRUE(mentions(refused.err, "memory.")) << refused.err;
  EXPECT_TRUE(mentions(refused.err, "ds4-test-")) << refused.err;
}

#endif

TEST(Memory, ProfileOfTheOperations) {
  const Outcome plain = run_command(ds4({"-p", "Count from 3 to 8."}));
  const Outcome got = run_command(ds4({"-p", "Count from 3 to 8.", "--profile-ops"}));
  EXPECT_EQ(got.out, plain.out);
  EXPECT_FALSE(mentions(plain.err, "experts_gate_up"));
  const size_t prefill = got.err.find("prefill, time of each operation:");
  const size_t decode = got.err.find("decode, time of each operation:");
  ASSERT_NE(prefill, std::string::npos) << got.err;
  ASSERT_NE(decode, std::string::npos) << got.err;
  EXPECT_TRUE(mentions(got.err.substr(prefill, decode - prefill), "experts_gate_up"));
  EXPECT_TRUE(mentions(got.err.substr(decode), "experts_gate_up"));
}

}  // namespace
}  // namespace ds4::test
