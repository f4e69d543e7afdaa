// ds4-bench as a program: rows, columns, files, exit codes, and what it says to wrong input.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <thread>

#include "tests/support/process.h"

namespace ds4::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::string kHeader =
    "ctx_tokens,prefill_tokens,prefill_tps,gen_tokens,gen_tps,kvcache_bytes";
const std::string kExtended =
    kHeader + ",ttft_ms,gen_p50_ms,gen_p95_ms,batch,mtp_accept,power_w,mem_bytes";

std::string nano() { return std::string(DS4_BINARY_DIR) + "/nano/nano-q8_0.gguf"; }
std::string text() { return std::string(DS4_SOURCE_DIR) + "/models/nano/held_text.txt"; }

struct Outcome {
  int code = -1;
  std::string out, err;
};

Outcome run_bare(std::vector<std::string> args) {
  args.insert(args.begin(), DS4_BENCH_PROGRAM);
  Process process(args);
  Outcome outcome;
  outcome.code = process.wait();
  outcome.out = process.out();
  outcome.err = process.err();
  return outcome;
}

// On Nano with the text that belongs to it, one thread.
Outcome run(std::vector<std::string> more) {
  std::vector<std::string> args = {"-m", nano(), "--prompt-file", text(), "-t", "1"};
  args.insert(args.end(), more.begin(), more.end());
  return run_bare(args);
}

bool mentions(const std::string& whole, const std::string& part) {
  return whole.find(part) != std::string::npos;
}

std::vector<std::string> lines_of(const std::string& whole) {
  std::vector<std::string> lines;
  std::istringstream stream(whole);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream stream(line + ",");
  for (std::string field; std::getline(stream, field, ',');) fields.push_back(field);
  return fields;
}

std::string read_file(const fs::path& path) {
  std::stringstream whole;
  whole << std::ifstream(path, std::ios::binary).rdbuf();
  return whole.str();
}

// A folder of its own, gone afterwards.
class Folder {
 public:
  Folder() {
    static int n = 0;
    path_ = fs::temp_directory_path() /
            ("ds4-bench-test-" + std::to_string(::getpid()) + "-" + std::to_string(++n));
    fs::create_directory(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

// The plain form is what scripts of the original read: that header, six fields a row, whole counts
// and two decimals, nothing else on standard output.
TEST(Ds4Bench, PlainRowsHaveTheColumnsThatScriptsKnow) {
  const Outcome got =
      run({"--ctx-start", "32", "--ctx-max", "80", "--step-incr", "32", "--gen-tokens", "3"});
  ASSERT_EQ(got.code, 0) << got.err;
  const auto lines = lines_of(got.out);
  ASSERT_EQ(lines.size(), 4u) << got.out;
  EXPECT_EQ(lines[0], kHeader);
  const std::regex row(R"(\d+,\d+,\d+\.\d\d,3,\d+\.\d\d,\d+)");
  const std::pair<const char*, const char*> places[] = {{"32", "32"}, {"64", "32"}, {"80", "16"}};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(std::regex_match(lines[i + 1], row)) << lines[i + 1];
    const auto fields = fields_of(lines[i + 1]);
    EXPECT_EQ(fields[0], places[i].first) << "frontiers are exact, and the last one is --ctx-max";
    EXPECT_EQ(fields[1], places[i].second);
    EXPECT_GT(std::stod(fields[2]), 0);
    EXPECT_GT(std::stod(fields[4]), 0);
  }
  EXPECT_LT(std::stoll(fields_of(lines[1])[5]), std::stoll(fields_of(lines[3])[5]));
  for (const char* fact : {"DeepSeek V4 Nano", "on cpu", "context 84 tokens in "}) {
    EXPECT_TRUE(mentions(got.err, fact)) << got.err;
  }
}

TEST(Ds4Bench, FrontiersMultiplyWithStepMul) {
  const Outcome got = run({"--ctx-start", "10", "--ctx-max", "36", "--step-mul", "1.5",
                           "--gen-tokens", "1", "--step-incr", "1"});
  ASSERT_EQ(got.code, 0) << got.err;
  std::string places;
  for (const std::string& line : lines_of(got.out)) places += fields_of(line)[0] + " ";
  EXPECT_EQ(places, "ctx_tokens 10 15 23 35 36 ");
}

TEST(Ds4Bench, WithoutAnswerTokensItOnlyReads) {
  const Outcome got =
      run({"--ctx-start", "40", "--ctx-max", "40", "--gen-tokens", "0", "--extended"});
  ASSERT_EQ(got.code, 0) << got.err;
  const auto lines = lines_of(got.out);
  ASSERT_EQ(lines.size(), 3u);
  const auto fields = fields_of(lines[2]);
  ASSERT_EQ(fields.size(), 13u) << lines[2];
  EXPECT_EQ(fields[3], "0");
  EXPECT_EQ(fields[4], "0.00");
  EXPECT_EQ(fields[7], "") << "no step, no median step";
}

// The line of facts is a comment in front of the CSV, and only with --extended.
TEST(Ds4Bench, ExtendedRowsSayWhatWasMeasuredOnWhat) {
  const Folder folder;
  const Outcome got = run({"--ctx-start", "32", "--ctx-max", "64", "--step-incr", "32",
                           "--gen-tokens", "2", "--repeat", "3", "--extended", "--json",
                           folder / "run.json", "--csv", folder / "run.csv"});
  ASSERT_EQ(got.code, 0) << got.err;
  EXPECT_EQ(got.out, "") << "the rows go to the file instead";
  const auto lines = lines_of(read_file(folder / "run.csv"));
  ASSERT_EQ(lines.size(), 4u);
  ASSERT_EQ(lines[0].substr(0, 3), "# {");
  EXPECT_EQ(lines[1], kExtended);
  const Json facts = Json::parse(lines[0].substr(2));
  EXPECT_EQ(facts.at("model").at("file"), "nano-q8_0.gguf");
  EXPECT_EQ(facts.at("model").at("fingerprint").get<std::string>().size(), 32u);
  EXPECT_EQ(facts.at("threads"), 1);
  EXPECT_EQ(facts.at("backend"), "cpu");
  EXPECT_EQ(facts.at("flags").at("repeat"), 3);
  for (const char* name : {"commit", "build_id", "device", "processor"}) {
    EXPECT_TRUE(facts.at(name).is_string()) << name;
  }
  const Json report = Json::parse(read_file(folder / "run.json"));
  EXPECT_EQ(report.at("header").at("model"), facts.at("model"));
  EXPECT_EQ(report.at("complete"), true);
  ASSERT_EQ(report.at("rows").size(), 2u);
  EXPECT_EQ(report.at("rows")[1].at("ctx_tokens"), 64);
  EXPECT_EQ(report.at("rows")[1].at("prefill_tokens"), 32);
  EXPECT_TRUE(report.at("rows")[1].at("mtp_accept").is_null());
  const auto fields = fields_of(lines[3]);
  ASSERT_EQ(fields.size(), 13u);
  EXPECT_EQ(fields[9], "1");
  EXPECT_EQ(fields[10], "") << "nothing is drafted yet";
  EXPECT_GT(std::stoll(fields[12]), 1 << 20);
  // A first token takes at least the time of the parts that were read.
  const double first = std::stod(fields_of(lines[2])[6]), second = std::stod(fields[6]);
  EXPECT_GT(second, first);
}

// What the same model file is recognised by: not its name, but what is in it.
TEST(Ds4Bench, TheFingerprintFollowsTheContentOfTheFile) {
  const Folder folder;
  const auto fingerprint_of = [&](const std::string& model) {
    const Outcome got = run_bare({"-m", model, "--prompt-file", text(), "--ctx-start", "4",
                                  "--ctx-max", "4", "--gen-tokens", "0", "--extended"});
    EXPECT_EQ(got.code, 0) << got.err;
    const Json facts = Json::parse(lines_of(got.out).at(0).substr(2));
    return facts.at("model").at("fingerprint").get<std::string>();
  };
  fs::copy_file(nano(), folder / "copy.gguf");
  const std::string original = fingerprint_of(nano());
  EXPECT_EQ(fingerprint_of(folder / "copy.gguf"), original);
  {
    std::fstream file(folder / "copy.gguf", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x5a');
  }
  EXPECT_NE(fingerprint_of(folder / "copy.gguf"), original) << "the last piece is looked at";
}

// The logits at a frontier do not depend on the answers that were given and forgotten before it:
// those of a run with answers at earlier frontiers, repeated and in a batch, are bit for bit those
// of a run that went straight there.
TEST(Ds4Bench, ForgettingAnAnswerLeavesTheLogitsAsTheyWere) {
  const Folder answered, straight;
  const Outcome a =
      run({"--ctx-start", "100", "--ctx-max", "300", "--step-incr", "70", "--gen-tokens", "9",
           "--repeat", "2", "--batch", "2", "--dump-frontier-logits-dir", answered.path()});
  ASSERT_EQ(a.code, 0) << a.err;
  const Outcome b = run({"--ctx-start", "300", "--ctx-max", "300", "--gen-tokens", "0",
                         "--dump-frontier-logits-dir", straight.path()});
  ASSERT_EQ(b.code, 0) << b.err;
  for (const char* name : {"frontier_000100.logits.json", "frontier_000170.logits.json",
                           "frontier_000240.logits.json"}) {
    EXPECT_TRUE(fs::exists(answered / name)) << name;
  }
  const std::string file = "frontier_000300.logits.json";
  const Json left = Json::parse(read_file(answered / file));
  const Json right = Json::parse(read_file(straight / file));
  EXPECT_EQ(left.at("logits").size(), 4096u);
  EXPECT_EQ(left.at("logits"), right.at("logits"));
  EXPECT_EQ(left.at("frontier_tokens"), 300);
  EXPECT_EQ(left.at("prefill_tokens"), 60);
  EXPECT_EQ(right.at("prefill_tokens"), 300);
  EXPECT_EQ(left.at("argmax_logit"), left.at("logits")[left.at("argmax_id").get<size_t>()]);
}

TEST(Ds4Bench, ATextBecomesOneMessageWithChatPromptFile) {
  const Folder folder;
  std::ofstream(folder / "question.txt") << "What is the capital of Japan?";
  const auto ask = [&](const std::string& system) {
    const Outcome got =
        run_bare({"-m", nano(), "-t", "1", "--chat-prompt-file", folder / "question.txt", "-sys",
                  system, "--ctx-start", "8", "--ctx-max", "8", "--gen-tokens", "0", "--extended"});
    EXPECT_EQ(got.code, 0) << got.err;
    return Json::parse(lines_of(got.out).at(0).substr(2)).at("prompt");
  };
  const Json bare = ask(""), with_system = ask("Be brief.");
  EXPECT_EQ(bare.at("chat"), true);
  EXPECT_LT(bare.at("tokens").get<int>(), with_system.at("tokens").get<int>());
}

// A text that is too short is a failure of this run and not of the command line: exit code 1.
TEST(Ds4Bench, ATextThatIsTooShortIsRefusedWithBothCounts) {
  const Folder folder;
  std::ofstream(folder / "short.txt") << "Once upon a time";
  const Outcome got = run_bare({"-m", nano(), "--prompt-file", folder / "short.txt"});
  EXPECT_EQ(got.code, 1);
  EXPECT_TRUE(std::regex_search(
      got.err, std::regex(R"(short\.txt: expected at least 32768 tokens .*, found \d\n)")))
      << got.err;
  EXPECT_EQ(got.out, "");
}

TEST(Ds4Bench, WrongCommandLinesAreRefusedBeforeAnythingIsLoaded) {
  const std::string model = "/nonexistent/model.gguf";
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"-m", model}, "--prompt-file"},
      {{"-m", model, "--prompt-file", "a", "--chat-prompt-file", "b"}, "--prompt-file"},
      {{"-m", model, "--prompt-file", "a", "--ctx-start", "9", "--ctx-max", "8"}, "--ctx-start"},
      {{"-m", model, "--prompt-file", "a", "--ctx-start", "0"}, "--ctx-start"},
      {{"-m", model, "--prompt-file", "a", "--step-mul", "0.5"}, "--step-mul"},
      {{"-m", model, "--prompt-file", "a", "--step-mul", "nan"}, "--step-mul"},
      {{"-m", model, "--prompt-file", "a", "--step-incr", "0"}, "--step-incr"},
      {{"-m", model, "--prompt-file", "a", "--ctx-alloc", "100"}, "--ctx-alloc"},
      {{"-m", model, "--prompt-file", "a", "--batch", "0"}, "--batch"},
      {{"-m", model, "--prompt-file", "a", "--repeat", "0"}, "--repeat"},
      {{"-m", model, "--prompt-file", "a", "--mem-limit", "much"}, "--mem-limit"},
      {{"-m", model, "--prompt-file", "a", "--backend", "abacus"}, "abacus"},
      {{"-m", model, "--prompt-file", "a", "--no-such-flag"}, "--no-such-flag"},
  };
  for (const auto& [args, word] : cases) {
    const Outcome got = run_bare(args);
    EXPECT_EQ(got.code, 2) << word << ": " << got.err;
    EXPECT_TRUE(mentions(got.err, word)) << got.err;
    EXPECT_EQ(got.out, "");
  }
}

TEST(Ds4Bench, WhatIsMissingIsSaidByName) {
  const Outcome model = run_bare({"-m", "/nonexistent/model.gguf", "--prompt-file", text()});
  EXPECT_EQ(model.code, 1);
  EXPECT_TRUE(mentions(model.err, "/nonexistent/model.gguf")) << model.err;
  const Outcome prompt = run_bare({"-m", nano(), "--prompt-file", "/nonexistent/text"});
  EXPECT_EQ(prompt.code, 1);
  EXPECT_TRUE(mentions(prompt.err, "/nonexistent/text")) << prompt.err;
}

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

TEST(Ds4Bench, TheChartIsAFileWithoutScriptsOrOtherFiles) {
  const Folder folder;
  const Outcome got = run({"--ctx-start", "16", "--ctx-max", "64", "--step-mul", "2",
                           "--gen-tokens", "1", "--plot", folder / "run.svg"});
  ASSERT_EQ(got.code, 0) << got.err;
  const std::string svg = read_file(folder / "run.svg");
  EXPECT_EQ(svg.substr(0, 5), "<svg ");
  for (const char* part : {"prefers-color-scheme: dark", "context, tokens", ">16<", ">64<"}) {
    EXPECT_TRUE(mentions(svg, part)) << part;
  }
  for (const char* part : {"<script", "href", "url(", "@import"}) {
    EXPECT_FALSE(mentions(svg, part)) << part;
  }
}

TEST(Ds4Bench, TheMachineIsATableAndNothingElse) {
  const Outcome got = run_bare({"--machine", "-t", "2"});
  ASSERT_EQ(got.code, 0) << got.err;
  EXPECT_EQ(got.err, "");
  const auto lines = lines_of(got.out);
  ASSERT_EQ(lines.size(), 7u) << got.out;
  EXPECT_TRUE(mentions(lines[0], "2 threads")) << lines[0];
  const std::regex figures(R"(.* (\d+\.\d) \((\d+\.\d)\) +(\d+\.\d) \((\d+\.\d)\))");
  for (size_t i = 1; i < 6; ++i) {
    std::smatch found;
    ASSERT_TRUE(std::regex_match(lines[i], found, figures)) << lines[i];
    EXPECT_GT(std::stod(found[1]), 0) << lines[i];
    EXPECT_GE(std::stod(found[1]), std::stod(found[2])) << "the best is no less than the median";
  }
}

TEST(Ds4Bench, ASliceIsTakenOnlyWhenItIsAllowed) {
  const Outcome help = run_bare({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_TRUE(mentions(help.out, "--allow-slice"));
  EXPECT_TRUE(mentions(help.out, "left empty")) << "what cannot be known";
  EXPECT_EQ(run_bare({"--version"}).code, 0);
}

}  // namespace
}  // namespace ds4::test
