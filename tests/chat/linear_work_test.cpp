// BC-96: work per request that grows with the square of the history. CPU time of this thread for
// 256 and for 4096 assistant/tool pairs: linear work gives a ratio of 16, quadratic work 256. The
// best of several runs counts, and the bound of 24 is the case's own. A clock is involved, so this
// runs in the CI tier only.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>

#include "chat/output_splitter.h"
#include "chat/tool_calls.h"
#include "tests/chat/conversations.h"
#include "tests/tokenizer/vocabs.h"

namespace ds4::test {
namespace {

constexpr int64_t kFew = 256, kMany = 4096;

template <typename Work>
double best_cpu_seconds(Work&& work) {
  const auto now = [] {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    const double start = now();
    work();
    best = std::min(best, now() - start);
  }
  return best;
}

// `work(n)` for both sizes.
template <typename Work>
double ratio(Work&& work) {
  const double few = best_cpu_seconds([&] { work(kFew); });
  return best_cpu_seconds([&] { work(kMany); }) / few;
}

std::string pairs_json(int64_t n) {
  std::string text = R"([{"role":"user","content":"go"})";
  for (int64_t i = 0; i < n; ++i) {
    const std::string id = std::to_string(i);
    text += R"(,{"role":"assistant","content":"step )" + id + R"(","tool_calls":[{"id":"c)" + id +
            R"(","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls )" +
            id + R"(\"}"}}]},{"role":"tool","tool_call_id":"c)" + id + R"(","content":"file )" +
            id + R"("})";
  }
  return text + "]";
}

TEST(LinearWork, ReadingAndCheckingAHistory) {
  const std::string few = pairs_json(kFew), many = pairs_json(kMany);
  EXPECT_LE(ratio([&](int64_t n) {
              const auto parsed = parse_messages(json(n == kFew ? few : many));
              ASSERT_TRUE(parsed) << parsed.error().message;
              ASSERT_EQ(parsed->size(), static_cast<size_t>(1 + 2 * n));
            }),
            24);
}

TEST(LinearWork, RenderingAHistoryToTokens) {
  const Conversation few = conversation(pairs_json(kFew), kBashTool);
  const Conversation many = conversation(pairs_json(kMany), kBashTool);
  size_t n_tokens = 0;
  EXPECT_LE(ratio([&](int64_t n) {
              const auto tokens = render_tokens(n == kFew ? few : many, {}, nano_tokenizer());
              ASSERT_TRUE(tokens) << tokens.error().message;
              n_tokens = tokens->size();
            }),
            24);
  EXPECT_GT(n_tokens, static_cast<size_t>(20 * kMany));
}

// One long word has no place to cut it: the merges of one piece must not cost its square.
TEST(LinearWork, EncodingTextWithoutSpaces) {
  for (const char* unit : {"ab", "\xe4\xb8\xad", "="}) {
    std::string few, many;
    for (int64_t i = 0; i < 8 * kFew; ++i) few += unit;
    for (int64_t i = 0; i < 8 * kMany; ++i) many += unit;
    EXPECT_LE(ratio([&](int64_t n) {
                ASSERT_FALSE(nano_tokenizer().encode_text(n == kFew ? few : many).empty());
              }),
              24)
        << unit;
  }
}

// The answer's way out, token by token: plain text, and white space that is held back.
TEST(LinearWork, SplittingALongAnswer) {
  const Tokenizer& tokenizer = nano_tokenizer();
  for (const char* unit : {" word and more", "\n\n \n"}) {
    const std::vector<Token> tokens = tokenizer.encode_text(unit);
    EXPECT_LE(ratio([&](int64_t n) {
                OutputSplitter splitter(tokenizer.special(), ThinkingMode::kChat);
                size_t bytes = 0;
                const auto take = [&](const std::vector<OutputChunk>& chunks) {
                  for (const OutputChunk& chunk : chunks) bytes += chunk.text.size();
                };
                for (int64_t i = 0; i < 16 * n; ++i) {
                  for (const Token token : tokens) {
                    take(splitter.push(token, tokenizer.bytes_of(token)));
                  }
                }
                take(splitter.finish());
                ASSERT_GT(bytes, 0u);
              }),
              24)
        << unit;
  }
}

// Tool calls, in one go and token by token: what a model can repeat without end, each piece of
// which a careless reader looks at together with all that came before. `head` puts the reader where
// the piece costs most.
TEST(LinearWork, ReadingToolCalls) {
  const std::vector<Tool> tools = {{"f", R"({"name": "f"})"}};
  const std::string block = "<｜DSML｜tool_calls><｜DSML｜invoke name=\"f\">";
  const std::string value = block + "<｜DSML｜parameter name=\"a\" string=\"true\">";
  const std::string unmarked = "<｜DSML｜parameter name=\"a\">";
  const std::string whole = value + "x</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls>";
  for (const auto& [head, unit] : std::vector<std::pair<std::string, std::string>>{
           {"", "<｜DSML｜tool_calls>"},
           {"", "`` <"},
           {"", "</｜DSML｜tool_calls> "},
           {"", whole + " "},
           {"<｜DSML｜tool_calls>", " \n"},
           {block, "<｜DSML｜invoke name=\"f\">"},
           {block, unmarked},
           {block, unmarked + "1</｜DSML｜parameter>"},
           {block + "{", "</｜DSML｜tool_calls> </｜DSML｜invoke> ."},
           {value, "</｜DSML｜invoke> \n"},
           {value + "</｜DSML｜invoke>", " "},
           {value, "\n<｜DSML｜parameter name='x"}}) {
    std::string few = head, many = head;
    for (int64_t i = 0; i < kFew; ++i) few += unit;
    for (int64_t i = 0; i < kMany; ++i) many += unit;
    const auto text = [&](int64_t n) -> const std::string& { return n == kFew ? few : many; };
    EXPECT_LE(ratio([&](int64_t n) {
                const ParsedAnswer said = parse_answer("", text(n), Finish::kStop, tools);
                const ParsedAnswer thought = parse_answer(text(n), "", Finish::kStop, tools);
                ASSERT_TRUE(said.reasoning.empty() && thought.content.empty());
              }),
              24)
        << head << unit;
    EXPECT_LE(ratio([&](int64_t n) {
                ToolBlockWatch watch;
                for (size_t at = 0; at < text(n).size(); at += 4) {
                  watch.push(std::string_view(text(n)).substr(at, 4));
                }
                ASSERT_EQ(watch.closed(), unit.starts_with(whole));
              }),
              24)
        << head << unit;
  }
}

}  // namespace
}  // namespace ds4::test
