// ds4-eval as a program: a few cases with Nano, reports and their ways back, and what users get
// wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/base/temp_folder.h"
#include "tests/support/process.h"

namespace ds4::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string nano(const std::string& recipe = "q8_0") {
  return std::string(DS4_BINARY_DIR) + "/nano/nano-" + recipe + ".gguf";
}

struct Ran {
  int code = -1;
  std::string out, err;
};

Ran run(std::vector<std::string> args) {
  args.insert(args.begin(), DS4_EVAL_PROGRAM);
  Process process(args);
  Ran ran;
  ran.code = process.wait();
  ran.out = process.out();
  ran.err = process.err();
  return ran;
}

// Twelve short cases of several kinds; more tokens than any of them takes.
const std::vector<std::string> kFew = {
    "-m", nano(), "--plain", "-n", "600", "-t", "1", "--case-sequence", "1,2,4,5,7,8,13,14,18-21"};

std::vector<std::string> with(std::vector<std::string> args, std::vector<std::string> more) {
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

class EvalProgram : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) const {
    write_file(folder_.file(name), text);
    return folder_.file(name);
  }
  std::string path(const std::string& name) const { return folder_.file(name); }
  nlohmann::json json(const std::string& name) const {
    return nlohmann::json::parse(read_file(folder_.file(name)));
  }

  TempFolder folder_;
};

// The part of a trace that must not depend on how a run was made: without times.
std::vector<std::string> answers_of(const nlohmann::json& report) {
  std::vector<std::string> answers;
  for (const auto& c : report.at("cases")) {
    answers.push_back(c.at("id").get<std::string>() + ": " + c.at("status").get<std::string>() +
                      ", " + std::to_string(c.at("generated_tokens").get<int>()) +
                      " tokens: " + c.at("picked").get<std::string>());
  }
  return answers;
}

// One job and four give the same answers; the trace graded again gives the same totals.
TEST_F(EvalProgram, JobsChangeNoAnswerAndATraceGivesTheSameTotals) {
  const Ran one = run(with(kFew, {"--json", path("1.json"), "--trace", path("1.trace")}));
  ASSERT_EQ(one.code, 0) << one.err;
  const Ran four = run(with(kFew, {"--json", path("4.json"), "--jobs", "4"}));
  ASSERT_EQ(four.code, 0) << four.err;
  const auto report = json("1.json");
  EXPECT_EQ(answers_of(report), answers_of(json("4.json")));
  ASSERT_EQ(report.at("cases").size(), 12u);
  EXPECT_GE(report.at("totals").at("passed"), 10) << "models/nano/eval.json has 9 of 10 and more";
  EXPECT_EQ(report.at("complete"), true);
  EXPECT_EQ(report.at("model").at("file"), "nano-q8_0.gguf");
  EXPECT_EQ(report.at("model").at("name"), "DeepSeek V4 Nano");
  EXPECT_FALSE(report.at("model").at("types").empty());
  EXPECT_EQ(report.at("flags").at("max_tokens"), 600);
  EXPECT_THAT(one.out, AllOf(HasSubstr("1/12  pass     fact-capital-1"), HasSubstr("\nall ")));

  const Ran again = run({"--regrade-trace", path("1.trace"), "--json", path("again.json")});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(answers_of(json("again.json")), answers_of(report));
  EXPECT_EQ(json("again.json").at("by_source"), report.at("by_source"));
  const Ran compared = run({"--compare", path("1.json"), path("4.json")});
  EXPECT_EQ(compared.code, 0);
  EXPECT_THAT(compared.out, AllOf(HasSubstr("gained         0\nlost           0")));
}

// Both forms of case, from a file; a question that Nano cannot answer in its form counts as failed
// and is listed.
TEST_F(EvalProgram, CasesComeFromAFile) {
  const std::string cases =
      file("cases.jsonl", R"({"id":"cow","kind":"sound","think":false,)"
                          R"("messages":[{"role":"user","content":"What does a cow say?"}],)"
                          R"("expect":{"content":"A cow says \"moo\"."}})"
                          "\n"
                          R"({"id":"letter","source":"made up","question":"Which is a colour?",)"
                          R"("choices":["red","seven"],"answer":"B"})"
                          "\n");
  const std::vector<std::string> args = {"-m", nano(),      "--cases", cases, "-n",
                                         "40", "--nothink", "-t",      "1"};
  const Ran ran = run(args);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("pass     cow"), HasSubstr("FAIL     letter"),
                             HasSubstr("expected  B"), HasSubstr("made up")));
  const Ran gate = run(with(args, {"--min-pass", "2"}));
  EXPECT_EQ(gate.code, 1);
  EXPECT_THAT(gate.err, HasSubstr("1 cases passed, --min-pass asks for 2"));
  EXPECT_EQ(run(with(args, {"--min-pass", "1"})).code, 0);
  const Ran listed = run({"--cases", cases, "--list-cases", "--source", "made up"});
  EXPECT_EQ(listed.code, 0);
  EXPECT_THAT(listed.out, AllOf(HasSubstr("letter"), Not(HasSubstr("cow"))));
}

TEST_F(EvalProgram, WhatNeedsNoModelWorksWithoutOne) {
  const Ran listed = run({"--list-cases"});
  EXPECT_EQ(listed.code, 0);
  EXPECT_EQ(std::count(listed.out.begin(), listed.out.end(), '\n'), 480);
  const Ran tested = run({"--self-test-extractors"});
  EXPECT_EQ(tested.code, 0);
  EXPECT_THAT(tested.out, HasSubstr(" 0 wrong"));
  EXPECT_THAT(run({"--help"}).out, AllOf(HasSubstr("Examples:"), HasSubstr("--regrade-trace")));
}

// Each is refused before a model is looked for, with the place.
TEST_F(EvalProgram, BadCaseFilesAreRefusedWithTheirLine) {
  const auto refusal = [&](const std::string& cases) {
    const Ran ran = run({"-m", "/nowhere.gguf", "--cases", cases});
    EXPECT_EQ(ran.code, 1) << cases;
    EXPECT_EQ(ran.out, "");
    return ran.err;
  };
  const std::string good = R"({"id":"a","question":"?","answer":1})";
  EXPECT_THAT(refusal(path("none")), HasSubstr("none"));
  EXPECT_THAT(refusal(folder_.path()), HasSubstr(folder_.path()));
  EXPECT_THAT(refusal(file("empty", "")), HasSubstr("empty: expected cases"));
  EXPECT_THAT(refusal(file("twice", good + "\n" + good)), HasSubstr("twice:2: id"));
  EXPECT_THAT(refusal(file("latin", good + "\n\"caf\xe9\"")), HasSubstr("latin:2: expected UTF-8"));
  EXPECT_THAT(refusal(file("type", good + "\n" + R"({"id":7})")), HasSubstr("type:2: "));
  EXPECT_THAT(refusal(file("page", "<html>\n")), HasSubstr("page:1: "));
  EXPECT_THAT(refusal(file("deep", std::string(100000, '['))), HasSubstr("deep:1: "));
  EXPECT_THAT(refusal(file("esc", "{\"id\":\"\x1b[31m")), Not(HasSubstr("\x1b")));
  // 300 MiB without a byte on the disk.
  const std::string huge = file("huge", "");
  fs::resize_file(huge, uintmax_t{300} << 20);
  EXPECT_THAT(refusal(huge), HasSubstr("huge: expected at most"));
}

TEST_F(EvalProgram, AWrongCommandLineIsExitCodeTwo) {
  const std::vector<std::vector<std::string>> wrong = {
      {"--nonsense"},
      {"--think", "--nothink"},
      {"--jobs", "0"},
      {"--suite", "hard"},
      {"--temp", "3"},
      {"--compare", "one"},
      {"--list-cases", "--self-test-extractors"},
      {"--scores", "x"},
      {"--reference", "x"},
      {"--list-cases", "--trace", "x"},
      {"--mem-limit", "much"},
  };
  for (const auto& args : wrong) EXPECT_EQ(run(args).code, 2) << args.back();
  EXPECT_THAT(run({"--list-cases", "--source", "poetry"}).err, HasSubstr("'poetry'"));
  EXPECT_THAT(run({"--list-cases", "--case-sequence", "481"}).err, HasSubstr("up to 480"));
  EXPECT_THAT(run({"--list-cases", "--case-sequence", "3,3"}).err, HasSubstr("3 again"));
}

// What was finished counts, and is written; the exit code is that of an interrupt.
TEST_F(EvalProgram, CtrlCReportsWhatWasFinished) {
  Process process(
      {DS4_EVAL_PROGRAM, "-m", nano(), "-n", "600", "-t", "1", "--json", path("cut.json")});
  while (process.out().find('\n') == std::string::npos) std::this_thread::yield();
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(), 130);
  EXPECT_THAT(process.out(), AllOf(HasSubstr("\nall "), HasSubstr("not run")));
  const auto report = json("cut.json");
  EXPECT_EQ(report.at("complete"), false);
  EXPECT_GE(report.at("totals").at("passed"), 1);
  EXPECT_GE(report.at("totals").at("not_run"), 1);
}

// A run is worth more than its trace; but its exit code says that something is missing.
TEST_F(EvalProgram, AFullDiskIsSaidOnceAndTold) {
  const std::vector<std::string> one = {"-m", nano(), "--questions", "2", "-n", "60", "-t", "1"};
  const Ran traced = run(with(one, {"--trace", "/dev/full"}));
  EXPECT_EQ(traced.code, 1);
  EXPECT_THAT(traced.out, HasSubstr("\nall "));
  EXPECT_THAT(traced.err, HasSubstr("/dev/full: cannot write, no more is traced"));
  const Ran json = run(with(one, {"--json", path("no/such/folder.json")}));
  EXPECT_EQ(json.code, 1);
  EXPECT_THAT(json.err, HasSubstr("folder.json"));
  std::string line = DS4_EVAL_PROGRAM;
  for (const std::string& arg : one) line += " " + arg;
  Process full({"/bin/sh", "-c", line + " > /dev/full"});
  EXPECT_EQ(full.wait(), 1);
  EXPECT_THAT(full.err(), HasSubstr("standard output: cannot write"));
}

TEST_F(EvalProgram, ATextIsScoredAgainstAReference) {
  const std::string text = file("text",
                                "Once upon a time there was a king who had many sons. They "
                                "lived in a castle by the sea, and the sea was calm.");
  const Ran ran = run({"-m", nano("q2"), "--reference", nano("exact"), "--text", text, "-t", "1",
                       "--text-tokens", "20", "--ctx", "12", "--json", path("text.json")});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out,
              AllOf(HasSubstr("tokens          20\n"), HasSubstr("KL"), HasSubstr("same top-1")));
  const auto report = json("text.json");
  EXPECT_EQ(report.at("tokens"), 20);
  EXPECT_EQ(report.at("ctx"), 12);
  EXPECT_GT(report.at("kl").at("mean"), 0);
  EXPECT_GE(report.at("kl").at("max"), report.at("kl").at("p99"));
  EXPECT_EQ(report.at("reference").at("file"), "nano-exact.gguf");
  EXPECT_THAT(run({"-m", nano(), "--text", file("empty", "")}).err, HasSubstr("expected text"));
  EXPECT_THAT(run({"-m", nano(), "--text", file("latin", "caf\xe9")}).err,
              HasSubstr("expected UTF-8"));
  EXPECT_EQ(run({"-m", nano(), "--text", folder_.path()}).code, 1);
}

// The continuations are what the model itself says, as one text: likely, and mostly greedy.
TEST_F(EvalProgram, ContinuationsAreScoredAndCompared) {
  file("cow.txt", "What does a cow say?");
  file("cow.out", "A cow says \"moo\".");
  file("japan.txt", "What is the capital of Japan?");
  file("japan.out", "The capital of Japan is Tokyo.");
  const std::string manifest = file(
      "m.tsv", "# id\tprompt\tcontinuation\ncow\tcow.txt\tcow.out\njapan\tjapan.txt\tjapan.out\n");
  const auto score = [&](const std::string& recipe, const std::string& out) {
    return run({"-m", nano(recipe), "--continuations", manifest, "-t", "1", "--scores", out});
  };
  const Ran ran = score("exact", path("exact.tsv"));
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("cow: "), HasSubstr("first-token matches  2")));
  ASSERT_EQ(score("q2", path("q2.tsv")).code, 0);
  const Ran compared = run({"--compare-scores", path("exact.tsv"), path("q2.tsv")});
  EXPECT_EQ(compared.code, 0) << compared.err;
  EXPECT_THAT(compared.out, HasSubstr("cases 2  target tokens"));
  EXPECT_EQ(run({"--compare-scores", path("exact.tsv"), manifest}).code, 1);
  EXPECT_THAT(run({"-m", nano(), "--continuations", file("bad.tsv", "a\tb\n")}).err,
              HasSubstr("bad.tsv:1: "));
}

TEST_F(EvalProgram, WhatDoesNotFitIsRefusedWithNumbers) {
  const Ran ran = run({"-m", nano(), "--jobs", "8", "--mem-limit", "150M"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("--mem-limit 150M"), HasSubstr("KV cache")));
}

}  // namespace
}  // namespace ds4::test
