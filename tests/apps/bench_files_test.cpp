// The files of ds4-bench: refused early, written whole, kept when a run fails or is interrupted.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "tests/apps/bench_fixture.h"

namespace ds4::test {
namespace {

// Files that cannot be written are refused before an hour of measuring, not after it; nothing is
// measured.
TEST(Ds4Bench, FilesThatCannotBeWrittenAreRefusedAtTheStart) {
  for (const char* flag : {"--csv", "--json", "--plot", "--dump-frontier-logits-dir"}) {
    const Outcome got = run({"--ctx-start", "8", "--ctx-max", "8", "--gen-tokens", "0", flag,
                             "/nonexistent/folder/file"});
    EXPECT_EQ(got.code, 1) << flag;
    EXPECT_TRUE(mentions(got.err, "/nonexistent/folder/file")) << got.err;
    EXPECT_EQ(got.out, "") << flag;
  }
}

// /dev/full takes no byte, like a disk without room; it must stay the device it is.
TEST(Ds4Bench, AFullDiskIsAnErrorAndNoSilence) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full on this system";
  for (const char* flag : {"--csv", "--json", "--plot"}) {
    const Outcome got =
        run({"--ctx-start", "8", "--ctx-max", "8", "--gen-tokens", "0", flag, "/dev/full"});
    EXPECT_EQ(got.code, 1) << flag;
    EXPECT_TRUE(mentions(got.err, "/dev/full")) << got.err;
    EXPECT_TRUE(fs::is_character_file("/dev/full")) << flag;
  }
}

TEST(Ds4Bench, AFailedRunLeavesTheResultsOfTheLastOne) {
  const Folder folder;
  std::ofstream(folder / "run.csv") << "kept\n";
  const Outcome got =
      run({"--ctx-start", "8", "--ctx-max", "8", "--mem-limit", "1M", "--csv", folder / "run.csv"});
  EXPECT_EQ(got.code, 1);
  EXPECT_TRUE(mentions(got.err, "--mem-limit 1M")) << got.err;
  EXPECT_EQ(read_file(folder / "run.csv"), "kept\n");
}

// A shorter run over a longer file leaves nothing of it.
TEST(Ds4Bench, ANewRunReplacesTheFileOfTheLastOne) {
  const Folder folder;
  std::ofstream(folder / "run.csv") << std::string(10000, 'x');
  const Outcome got =
      run({"--ctx-start", "8", "--ctx-max", "8", "--gen-tokens", "0", "--csv", folder / "run.csv"});
  ASSERT_EQ(got.code, 0) << got.err;
  EXPECT_EQ(lines_of(read_file(folder / "run.csv")).size(), 2u);
}

// Ctrl-C while a later row is measured: the rows so far are there, in every file, exit code 130.
// The signal is sent when the first row has come, which does not depend on the machine's speed;
// the run asks for far more than it can finish by then.
TEST(Ds4Bench, AnInterruptedRunKeepsWhatItMeasured) {
  const Folder folder;
  Process process({DS4_BENCH_PROGRAM,
                   "-m",
                   nano(),
                   "--prompt-file",
                   text(),
                   "-t",
                   "1",
                   "--ctx-start",
                   "16",
                   "--ctx-max",
                   "16000",
                   "--step-incr",
                   "8",
                   "--gen-tokens",
                   "64",
                   "--csv",
                   folder / "run.csv",
                   "--json",
                   folder / "run.json",
                   "--plot",
                   folder / "run.svg"});
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(10);
  while (lines_of(read_file(folder / "run.csv")).size() < 3 &&
         std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(), 130);
  const std::string csv = read_file(folder / "run.csv");
  const size_t n_rows = lines_of(csv).size() - 1;
  EXPECT_GE(n_rows, 2u) << process.err();
  EXPECT_EQ(csv.back(), '\n') << "rows are whole";
  const Json report = Json::parse(read_file(folder / "run.json"));
  EXPECT_EQ(report.at("complete"), false);
  EXPECT_EQ(report.at("rows").size(), n_rows);
  EXPECT_TRUE(mentions(read_file(folder / "run.svg"), "</svg>"));
  EXPECT_TRUE(mentions(process.err(), "interrupted after " + std::to_string(n_rows) + " rows"))
      << process.err();
}

}  // namespace
}  // namespace ds4::test
