// ds4-bench as a program: rows, columns, what it says to wrong input.
#include <gtest/gtest.h>

#include <regex>

#include "tests/apps/bench_fixture.h"

namespace ds4::test {
namespace {

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
