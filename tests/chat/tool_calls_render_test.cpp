#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

#include "chat/tool_calls.h"
#include "tests/chat/conversations.h"
#include "tests/tokenizer/vocabs.h"

namespace ds4::test {
namespace {

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

// Text from pieces that markup is made of. What the format, which has no escapes, cannot carry is
// not in it: a parameter's closer, and the closers of an invoke and a block together.
std::string tricky_text() {
  const auto pieces = *rc::gen::container<std::vector<std::string>>(
      rc::gen::elementOf(std::vector<std::string>{"a",
                                                  " ",
                                                  "\n",
                                                  "\r",
                                                  "<",
                                                  "</",
                                                  ">",
                                                  "｜DSML｜",
                                                  "|",
                                                  "invoke",
                                                  "tool_calls>",
                                                  "name=\"x\"",
                                                  "\"",
                                                  "\\",
                                                  "'",
                                                  "“",
                                                  "`",
                                                  "&lt;",
                                                  "{",
                                                  "}",
                                                  "日本",
                                                  "\t",
                                                  "\x01",
                                                  "<think>",
                                                  "</think>",
                                                  "<｜end▁of▁sentence｜>",
                                                  "<tool_calls>",
                                                  "</parameter>",
                                                  "0",
                                                  "null"}));
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return *rc::gen::arbitrary<bool>() ? replaced(text, "invoke", "call")
                                     : replaced(text, "tool_calls>", "calls>");
}

nlohmann::ordered_json random_value(int depth) {
  switch (*rc::gen::inRange(0, depth > 0 ? 7 : 5)) {
    case 0:
      return json(*rc::gen::element<std::string>("1.50", "-0", "1e5", "12345678901234567890", "7"));
    case 1:
      return *rc::gen::element(true, false);
    case 2:
      return nullptr;
    case 5: {
      auto array = nlohmann::ordered_json::array();
      for (int i = *rc::gen::inRange(0, 3); i > 0; --i) array.push_back(random_value(depth - 1));
      return array;
    }
    case 6: {
      auto object = nlohmann::ordered_json::object();
      for (int i = *rc::gen::inRange(0, 3); i > 0; --i) {
        object[tricky_text()] = random_value(depth - 1);
      }
      return object;
    }
    default:
      return tricky_text();
  }
}

// The renderer is the parser's oracle: what it writes for a turn comes back, through tokens, as the
// same reasoning, content, names and arguments.
TEST(RenderedToolCalls, ComeBackFromTokens) {
  const Tokenizer& v4 = v4_tokenizer();
  EXPECT_TRUE(rc::check([&] {
    Conversation made;
    made.tools = {{"some_tool", R"({"name": "some_tool"})"}};
    made.messages = {message(Role::kUser, "go"), message(Role::kAssistant, "", "")};
    Message& turn = made.messages.back();
    // Closers at the end of a thought are dropped; markup inside a fence is text.
    turn.reasoning = tricky_text();
    if (turn.reasoning.find('>') != std::string::npos) turn.reasoning += ".";
    turn.content =
        replaced(replaced(tricky_text(), "invoke", "call"), "tool_calls>", "tool_calls>.");
    if (count(replaced(turn.content, "```", "==="), "===") % 2 != 0) turn.content += "\n```";
    if (turn.content.ends_with('\r')) turn.content += "a";
    for (int i = *rc::gen::inRange(1, 4); i > 0; --i) {
      auto arguments = nlohmann::ordered_json::object();
      for (int n = *rc::gen::inRange(0, 4); n > 0; --n) {
        const std::string key = replaced(replaced(tricky_text(), "\"", ""), "\n", "");
        arguments[key.substr(0, key.find("日"))] = random_value(2);
      }
      turn.tool_calls.push_back({"", "tool_" + std::to_string(i), write_json(arguments)});
    }
    const auto all = render_tokens(made, {}, v4);
    Conversation question = made;
    question.messages.pop_back();
    const auto prompt_tokens = render_tokens(question, {}, v4);
    RC_ASSERT(all.has_value());
    OutputSplitter splitter(v4.special(), ThinkingMode::kThinking);
    ToolBlockWatch watch;
    std::string reasoning, content;
    const auto add = [&](const std::vector<OutputChunk>& chunks) {
      for (const OutputChunk& chunk : chunks) {
        (chunk.channel == Channel::kReasoning ? reasoning : content) += chunk.text;
        if (chunk.channel == Channel::kContent) watch.push(chunk.text);
      }
    };
    for (size_t i = prompt_tokens->size(); i < all->size(); ++i) {
      add(splitter.push((*all)[i], v4.bytes_of((*all)[i])));
    }
    add(splitter.finish());
    const ParsedAnswer answer =
        parse_answer(reasoning, content, Finish::kStop, made.tools, splitter.channel());
    RC_ASSERT(watch.closed());
    RC_ASSERT(answer.error == "" && !answer.recovered && !answer.truncated);
    RC_ASSERT(answer.reasoning == turn.reasoning);
    const bool blank = turn.content.find_first_not_of(" \n\r\t") == std::string::npos;
    RC_ASSERT(answer.content == (blank ? "" : turn.content));
    RC_ASSERT(answer.calls.size() == turn.tool_calls.size());
    for (size_t i = 0; i < answer.calls.size(); ++i) {
      RC_ASSERT(answer.calls[i].name == turn.tool_calls[i].name);
      RC_ASSERT(answer.calls[i].arguments == turn.tool_calls[i].arguments);
    }
  }));
}

}  // namespace
}  // namespace ds4::test
