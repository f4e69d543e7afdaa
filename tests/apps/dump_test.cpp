// The numbers ds4 writes: log-probabilities, logits, perplexity and traces, each against a
// recomputation from another of its outputs or from the library.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/base/temp_folder.h"
#include "tests/support/process.h"

namespace ds4::test {
namespace {

using nlohmann::json;

struct Outcome {
  int code = -1;
  std::string out, err;
};

Outcome run(std::vector<std::string> args) {
  const std::vector<std::string> base = {
      DS4_PROGRAM, "-m", std::string(DS4_BINARY_DIR) + "/nano/nano-q8_0.gguf",
      "-sys",      "",   "--nothink"};
  args.insert(args.begin(), base.begin(), base.end());
  Process process(args);
  Outcome outcome;
  outcome.code = process.wait();
  outcome.out = process.out();
  outcome.err = process.err();
  return outcome;
}

std::string read_text(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::vector<double> log_softmax(const json& logits) {
  double max = -INFINITY, sum = 0;  // values were f32: read as such they are exact
  for (const json& x : logits) max = std::max(max, double{x.get<float>()});
  for (const json& x : logits) sum += std::exp(double{x.get<float>()} - max);
  std::vector<double> out;
  for (const json& x : logits) out.push_back(double{x.get<float>()} - max - std::log(sum));
  return out;
}

// The first step of --dump-logprobs is made from the logits that --dump-logits writes: same
// ranking, same values; and the chosen tokens spell the greedy answer.
TEST(Ds4Dump, LogProbabilitiesAreThoseOfTheLogits) {
  const TempFolder folder;
  const std::string probs = folder.file("probs.json"), logits = folder.file("logits.json");
  const std::string prompt = "What is the capital of Japan?";
  const Outcome first = run({"--dump-logprobs", probs, "--logprobs-top-k", "5", "-p", prompt});
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.out, "") << "no text";
  ASSERT_EQ(run({"--dump-logits", logits, "-p", prompt}).code, 0);
  const json run_of = json::parse(read_text(probs)), all = json::parse(read_text(logits));
  EXPECT_EQ(run_of.at("source"), "ds4");
  EXPECT_EQ(run_of.at("ctx"), 32768);
  EXPECT_EQ(run_of.at("top_k"), 5);
  EXPECT_EQ(run_of.at("prompt_tokens"), all.at("prompt_tokens"));
  ASSERT_EQ(all.at("logits").size(), 4096u);
  const std::vector<double> expected = log_softmax(all.at("logits"));

  std::string answer;
  int64_t n = 0;
  for (const json& step : run_of.at("steps")) {
    EXPECT_EQ(step.at("step"), n++);
    const json& top = step.at("top_logprobs");
    ASSERT_EQ(top.size(), 5u);
    EXPECT_EQ(top[0].at("token"), step.at("selected")) << "greedy";
    for (size_t i = 1; i < top.size(); ++i) {
      EXPECT_GE(top[i - 1].at("logprob"), top[i].at("logprob"));
    }
    for (const json& byte : step.at("selected").at("bytes")) {
      answer += static_cast<char>(byte.get<int>());
    }
  }
  EXPECT_EQ(answer, "The capital of Japan is Tokyo.<｜end▁of▁sentence｜>");
  for (const json& entry : run_of.at("steps")[0].at("top_logprobs")) {
    const size_t id = entry.at("token").at("id");
    EXPECT_NEAR(entry.at("logprob").get<double>(), expected[id], 1e-12);
    EXPECT_EQ(entry.at("logit"), all.at("logits")[id]);
    const auto better = [&](double p) { return p > expected[id]; };
    EXPECT_LT(std::count_if(expected.begin(), expected.end(), better), 5) << id;
  }
}

TEST(Ds4Dump, WrongUseIsRefused) {
  const TempFolder folder;
  const std::string file = folder.file("x.json");
  EXPECT_EQ(run({"--dump-logprobs", file, "--logprobs-top-k", "129", "-p", "x"}).code, 2);
  EXPECT_EQ(run({"--dump-logprobs", file, "--logprobs-top-k", "0", "-p", "x"}).code, 2);
  const Outcome both = run({"--dump-logprobs", file, "--dump-logits", file, "-p", "x"});
  EXPECT_EQ(both.code, 2);
  EXPECT_NE(both.err.find("--dump-logprobs and --dump-logits: choose one"), std::string::npos);
  const Outcome nowhere = run({"--dump-logits", "/no/such/folder/x.json", "-p", "x"});
  EXPECT_EQ(nowhere.code, 1);
  EXPECT_NE(nowhere.err.find("/no/such/folder"), std::string::npos) << nowhere.err;
  EXPECT_EQ(run({"--dump-logits", file, "-c", "4", "-p", "too long for it"}).code, 1);
  EXPECT_EQ(folder.n_entries(), 0) << "a failed dump leaves nothing";
}

double field(const std::string& line, const std::string& name) {
  const size_t at = line.find(name + "=");
  return at == std::string::npos ? NAN : std::stod(line.substr(at + name.size() + 1));
}

// The text is a prompt of growing length whose logits say how likely its next token is: the sum
// over the last tokens is the difference of two perplexity runs that end at either.
TEST(Ds4Dump, PerplexityIsTheLikelihoodThatLogitsGive) {
  const TempFolder folder;
  const std::string words =
      "Once upon a time there was a king who had many sons. I do not exactly know how many there "
      "were, but the youngest of them could not stay quietly at home";
  write_file(folder.file("short.txt"), words);
  write_file(folder.file("long.txt"), words + ",");
  const Outcome a = run({"--perplexity-file", folder.file("short.txt")});
  const Outcome b = run({"--perplexity-file", folder.file("long.txt")});
  ASSERT_EQ(a.code, 0) << a.err;
  ASSERT_EQ(b.code, 0) << b.err;
  ASSERT_EQ(field(b.out, "tokens"), field(a.out, "tokens") + 1) << a.out << b.out;
  EXPECT_EQ(field(a.out, "scored"), field(a.out, "tokens") - 32);
  EXPECT_NEAR(field(a.out, "avg_nll"), field(a.out, "nll") / field(a.out, "scored"), 1e-7);
  EXPECT_NEAR(field(a.out, "ppl"), std::exp(field(a.out, "avg_nll")), 1e-5);

  const std::string logits = folder.file("logits.json");
  ASSERT_EQ(run({"--dump-logits", logits, "--raw-prompt", "-p", words}).code, 0);
  const std::vector<double> expected = log_softmax(json::parse(read_text(logits)).at("logits"));
  const Outcome ids = run({"--dump-tokens", "-p", ","});
  const size_t comma = std::stoul(ids.out);
  EXPECT_NEAR(field(b.out, "nll") - field(a.out, "nll"), -expected[comma], 2e-6);
}

TEST(Ds4Dump, PerplexityDoesNotDependOnTheChunks) {
  const TempFolder folder;
  const std::string text =
      read_text(std::string(DS4_SOURCE_DIR) + "/models/nano/held_text.txt").substr(0, 1500);
  write_file(folder.file("text"), text);
  const Outcome whole = run({"--perplexity-file", folder.file("text")});
  EXPECT_EQ(whole.code, 0) << whole.err;
  EXPECT_EQ(whole.out.find('\n'), whole.out.size() - 1) << "one line";
  EXPECT_EQ(run({"--perplexity-file", folder.file("text"), "--prefill-chunk", "7"}).out, whole.out);
  EXPECT_EQ(run({"--perplexity-file", folder.file("text"), "-t", "1"}).out, whole.out);
}

TEST(Ds4Dump, PerplexitySaysWhatATextMustBe) {
  const TempFolder folder;
  write_file(folder.file("short"), "Too short.");
  const Outcome brief = run({"--perplexity-file", folder.file("short")});
  EXPECT_EQ(brief.code, 1);
  EXPECT_NE(brief.err.find("expected more than 32 tokens"), std::string::npos) << brief.err;
  write_file(folder.file("long"), std::string(3000, 'a'));
  const Outcome large = run({"--perplexity-file", folder.file("long"), "-c", "100"});
  EXPECT_EQ(large.code, 1);
  EXPECT_NE(large.err.find("the context holds 100"), std::string::npos) << large.err;
  EXPECT_EQ(run({"--perplexity-file", folder.file("none")}).code, 1);
}

// An importance matrix: the same bytes whatever the threads and the chunks, and refusals that leave
// no file.
TEST(Ds4Imatrix, IsMadeFromADataSet) {
  const TempFolder folder;
  const std::string mark = "===== DS4_IMATRIX_PROMPT\n";
  write_file(
      folder.file("chats"),
      mark + "<｜begin▁of▁sentence｜>Once upon a time there was a king who had many sons.\n" +
          mark + "<｜begin▁of▁sentence｜><｜User｜>What does a cow say?<｜Assistant｜></think>");
  const auto make = [&](const std::string& out, std::vector<std::string> more) {
    more.insert(more.end(),
                {"--imatrix-dataset", folder.file("chats"), "--imatrix-out", folder.file(out)});
    return run(more);
  };
  const Outcome first = make("a.dat", {"-t", "1"});
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_NE(first.out.find("prompts=2 "), std::string::npos) << first.out;
  EXPECT_NE(first.out.find("entries=27 "), std::string::npos) << first.out;
  ASSERT_EQ(make("b.dat", {"-t", "3", "--prefill-chunk", "5"}).code, 0);
  EXPECT_EQ(read_text(folder.file("a.dat")), read_text(folder.file("b.dat")));
  const Outcome limited =
      make("c.gguf", {"--imatrix-max-prompts", "1", "--imatrix-max-tokens", "5"});
  ASSERT_EQ(limited.code, 0) << limited.err;
  EXPECT_NE(limited.out.find("prompts=1 tokens=5 "), std::string::npos) << limited.out;
  EXPECT_NE(limited.out.find("of 144 experts were never used: layer 0:"), std::string::npos)
      << limited.out;
  EXPECT_EQ(read_text(folder.file("c.gguf")).substr(0, 4), "GGUF");
}

TEST(Ds4Imatrix, SaysWhatIsMissing) {
  const TempFolder folder;
  write_file(folder.file("empty"), "===== DS4_IMATRIX_PROMPT\n \n");
  const Outcome empty =
      run({"--imatrix-dataset", folder.file("empty"), "--imatrix-out", folder.file("x.dat")});
  EXPECT_EQ(empty.code, 1);
  EXPECT_NE(empty.err.find("expected prompts after lines"), std::string::npos) << empty.err;
  EXPECT_EQ(run({"--imatrix-dataset", folder.file("empty")}).code, 2);
  EXPECT_EQ(run({"--imatrix-out", folder.file("x.dat")}).code, 2);
  EXPECT_EQ(
      run({"--imatrix-dataset", folder.file("none"), "--imatrix-out", folder.file("x.dat")}).code,
      1);
  write_file(folder.file("chats"), "Hello");
  EXPECT_EQ(run({"--imatrix-dataset", folder.file("chats"), "--imatrix-out",
                 folder.file("no/such/folder/x.dat")})
                .code,
            1);
  EXPECT_EQ(read_text(folder.file("x.dat")), "");
}

// Every line is JSON; the events tell the run from its options to its end, and the tokens spell
// what was printed.
TEST(Ds4Trace, TellsTheRunEventByEvent) {
  const TempFolder folder;
  const std::string path = folder.file("trace.jsonl");
  const Outcome got = run({"--temp", "0", "--trace", path, "-p", "What does a cow say?"});
  ASSERT_EQ(got.code, 0) << got.err;
  std::istringstream lines(read_text(path));
  std::vector<json> events;
  for (std::string line; std::getline(lines, line);) events.push_back(json::parse(line));
  ASSERT_GT(events.size(), 6u);
  const char* const names[] = {"start", "model", "prompt", "sync", "token"};
  for (size_t i = 0; i < std::size(names); ++i) EXPECT_EQ(events[i].at("event"), names[i]);
  EXPECT_EQ(events[2].at("ids").size(), events[3].at("evaluated").get<size_t>());
  EXPECT_EQ(events[3].at("reused"), 0);
  std::string answer;
  double last = 0;
  for (const json& e : events) {
    EXPECT_GE(e.at("t").get<double>(), last);
    last = e.at("t");
    if (e.at("event") != "token") continue;
    EXPECT_LE(e.at("logprob").get<double>(), 0.0);
    answer += e.at("text");
  }
  EXPECT_EQ(answer, "A cow says \"moo\".<｜end▁of▁sentence｜>");
  EXPECT_EQ(events.back().at("event"), "turn");
  EXPECT_EQ(events.back().at("ended"), "done");
  namespace fs = std::filesystem;
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write);

  const Outcome failed = run({"--trace", path, "-c", "4", "-p", "too long for it"});
  EXPECT_EQ(failed.code, 1);
  EXPECT_NE(read_text(path).find("\"event\":\"error\""), std::string::npos);
  EXPECT_EQ(run({"--trace", "/no/such/folder/t", "-p", "x"}).code, 1);
  const Outcome full = run({"--temp", "0", "--trace", "/dev/full", "-p", "What does a cow say?"});
  EXPECT_EQ(full.code, 0) << "the answer matters more";
  EXPECT_NE(full.err.find("no more is traced"), std::string::npos) << full.err;
}

}  // namespace
}  // namespace ds4::test
