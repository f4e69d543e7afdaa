#include "chat/tool_calls.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/chat/conversations.h"
#include "tests/tokenizer/vocabs.h"

namespace ds4::test {
namespace {

// Any declared tool switches the parser on; this one has no schema to interfere.
const std::vector<Tool> kSomeTool = {{"some_tool", R"({"name": "some_tool"})"}};

// "<T>" for a block's opener, "<I x>" for an invoke of x, "<P k>" and "<J k>" for parameters with
// string true and false, "<N k>" for one without the attribute; "</T>" "</I>" "</P>" close.
std::string markup(std::string_view shorthand) {
  std::string out;
  for (size_t at = 0; at < shorthand.size(); ++at) {
    const std::string_view rest = shorthand.substr(at);
    const size_t end = rest.find('>');
    const auto tag = [&](std::string_view text) {
      out += text;
      at += end;
    };
    const std::string name(rest.size() > 3 && end > 3 ? rest.substr(3, end - 3) : "");
    if (rest.starts_with("<T>")) {
      tag("<｜DSML｜tool_calls>");
    } else if (rest.starts_with("</T>")) {
      tag("</｜DSML｜tool_calls>");
    } else if (rest.starts_with("</I>")) {
      tag("</｜DSML｜invoke>");
    } else if (rest.starts_with("</P>")) {
      tag("</｜DSML｜parameter>");
    } else if (rest.starts_with("<I ")) {
      tag("<｜DSML｜invoke name=\"" + name + "\">");
    } else if (rest.starts_with("<P ")) {
      tag("<｜DSML｜parameter name=\"" + name + "\" string=\"true\">");
    } else if (rest.starts_with("<J ")) {
      tag("<｜DSML｜parameter name=\"" + name + "\" string=\"false\">");
    } else if (rest.starts_with("<N ")) {
      tag("<｜DSML｜parameter name=\"" + name + "\">");
    } else {
      out += shorthand[at];
    }
  }
  return out;
}

std::string calls_text(const std::vector<ToolCall>& calls) {
  std::string text;
  for (const ToolCall& call : calls) {
    EXPECT_EQ(call.id, "");
    EXPECT_TRUE(parse_json(call.arguments)) << call.arguments;
    text += (text.empty() ? "" : "; ") + call.name + " " + call.arguments;
  }
  return text;
}

ParsedAnswer parse(std::string_view content, Finish finish = Finish::kStop,
                   const std::vector<Tool>& tools = kSomeTool) {
  return parse_answer("", content, finish, tools, Channel::kContent);
}

// The calls in `shorthand`, or the error.
std::string calls(std::string_view shorthand, Finish finish = Finish::kStop,
                  const std::vector<Tool>& tools = kSomeTool) {
  const std::string text = markup(shorthand);
  const ParsedAnswer answer = parse(text, finish, tools);
  if (!answer.error.empty()) {
    EXPECT_TRUE(answer.calls.empty());
    EXPECT_EQ(answer.content, text);  // nothing of what the model wrote is lost
    return answer.error;
  }
  return calls_text(answer.calls) + (answer.truncated ? " (truncated)" : "");
}

// Sampled tokens as the engine sees them: control tokens by id, through the splitter.
ParsedAnswer parse_tokens(std::string_view text, ThinkingMode mode, Finish finish,
                          const std::vector<Tool>& tools, const Tokenizer& tokenizer) {
  OutputSplitter splitter(tokenizer.special(), mode);
  std::string reasoning, content;
  ToolBlockWatch watch;
  const auto add = [&](const std::vector<OutputChunk>& chunks) {
    for (const OutputChunk& chunk : chunks) {
      (chunk.channel == Channel::kReasoning ? reasoning : content) += chunk.text;
      if (chunk.channel == Channel::kContent) watch.push(chunk.text);
    }
  };
  for (const Token token : tokenizer.encode_rendered(text)) {
    add(splitter.push(token, tokenizer.bytes_of(token)));
  }
  add(splitter.finish());
  ParsedAnswer answer = parse_answer(reasoning, content, finish, tools, splitter.channel());
  // Where a whole block was found sampling would have stopped, and nowhere else.
  if (!tools.empty() && answer.error.empty() && !answer.recovered && !answer.calls.empty()) {
    ParsedAnswer cut = parse_answer(reasoning, content, Finish::kLength, tools, Channel::kContent);
    EXPECT_EQ(watch.closed(), !cut.truncated) << text;
  }
  return answer;
}

// The known answers, with both vocabularies: 81 answers of models, right and almost right, with
// what they mean. BC-76, 77, 78, 81, 84 are among them.
TEST(ToolCalls, EqualTheKnownParses) {
  for (const auto& line : read_json_lines("chat/dsml_cases.jsonl", 81)) {
    SCOPED_TRACE(line.at("id").get<std::string>());
    const auto mode = line.at("mode") == "chat" ? ThinkingMode::kChat : ThinkingMode::kThinking;
    const auto finish = line.value("finish", "stop") == "length" ? Finish::kLength : Finish::kStop;
    std::vector<Tool> tools = kSomeTool;
    if (line.contains("tools")) tools = parse_tools(line["tools"]).value();
    if (!line.value("tools_enabled", true)) tools.clear();
    const auto& expected = line.at("expected");
    for (const Tokenizer* tokenizer : {&v4_tokenizer(), &nano_tokenizer()}) {
      const ParsedAnswer answer =
          parse_tokens(line.at("text").get<std::string>(), mode, finish, tools, *tokenizer);
      EXPECT_EQ(answer.error, expected.value("error", ""));
      if (expected.contains("error")) continue;
      EXPECT_EQ(answer.reasoning, expected.at("reasoning"));
      EXPECT_EQ(answer.content, expected.at("content"));
      EXPECT_EQ(answer.recovered, expected.value("recovered", false));
      EXPECT_EQ(answer.truncated, expected.value("truncated", false));
      ASSERT_EQ(answer.calls.size(), expected.at("tool_calls").size());
      for (size_t i = 0; i < answer.calls.size(); ++i) {
        EXPECT_EQ(answer.calls[i].name, expected["tool_calls"][i].at("name"));
        EXPECT_EQ(answer.calls[i].arguments, expected["tool_calls"][i].at("arguments"));
      }
    }
  }
}

constexpr const char* kPutTool =
    R"([{"type":"function","function":{"name":"put","parameters":{"type":"object","properties":{
        "path":{"type":"string"},"n":{"type":["integer","null"]},"note":{},
        "opts":{"type":"object","properties":{"deep":{"type":"boolean"}}}}}}}])";

std::vector<Tool> put_tool() { return parse_tools(json(kPutTool)).value(); }

// What is repaired (docs/formats/chat.md has the table).
TEST(ToolCalls, RepairsWhatHasOneMeaning) {
  // The closer of the other kind, where the closer is missing (BC-81).
  EXPECT_EQ(calls("<T>\n<I ls>\n<P dir>/srv</parameter>\n</I>\n</T>"), R"(ls {"dir": "/srv"})");
  EXPECT_EQ(calls("<T><I ls><P dir>/srv</parameter>\n<P n>1</P></I></T>"),
            R"(ls {"dir": "/srv", "n": "1"})");
  // The end of another dialect behind a call (BC-81): closers missing at the end.
  EXPECT_EQ(calls("<T>\n<I ls>\n<P dir>/srv</P>\n</tool_call></function>"),
            R"(ls {"dir": "/srv"})");
  EXPECT_EQ(calls("<T><I ls><P d>/</P></I><I ls>"), R"(ls {"d": "/"}; ls {})");
  EXPECT_EQ(calls("<T><I a><P d>/</P><I b></I></T>"), R"(a {"d": "/"}; b {})");
  EXPECT_EQ(calls("<T><I a><P d>/\n</I><I b></I></T>"), R"(a {"d": "/"}; b {})");
  EXPECT_EQ(calls("<T><I a><P d>/\r\n</I> \n</T>"), R"(a {"d": "/"})");
  EXPECT_EQ(calls("<T><I a><P d>/\n\n</I>"), R"(a {"d": "/\n"})");
  // JSON in place of parameters, whatever it holds, and with either closer missing.
  EXPECT_EQ(calls(R"(<T><I a>{"s": "</I> a </T> b"}</I></T>)"),
            "a " + write_json({{"s", markup("</I> a </T> b")}}));
  EXPECT_EQ(calls(R"(<T><I a> {"n": 1.50}
 </T>)"),
            R"(a {"n": 1.50})");
  EXPECT_EQ(calls(R"(<T><I a>{"n": 1} )"), R"(a {"n": 1})");
}

// BC-81: what has no sure meaning is an error that the client can see, never other arguments.
TEST(ToolCalls, RefusesWhatItWouldHaveToGuess) {
  EXPECT_EQ(calls("<T><I ></I></T>"), "malformed_tool_call");
  EXPECT_EQ(calls("<T><｜DSML｜invoke name=ls></I></T>"), "malformed_tool_call");
  EXPECT_EQ(calls("<T><｜DSML｜invoke name=\"ls>\n</I></T>"), "malformed_tool_call");
  EXPECT_EQ(calls("<T><I ls>/srv</I></T>"), "malformed_tool_call");
  EXPECT_EQ(calls("<T><I ls>{dir: 1}</I></T>"), "malformed_tool_call");
  EXPECT_EQ(calls("<T><I ls>{\"dir\": 1} and</I></T>"), "malformed_tool_call");
  EXPECT_EQ(calls("<T><I ls>{\"dir\": "), "unterminated_tool_call");
  EXPECT_EQ(calls("<T><I ls><P dir>/srv\n</T>"), "unterminated_tool_call");
  EXPECT_EQ(calls("<T><I ls><P dir>/srv</tool_call></function>"), "unterminated_tool_call");
  EXPECT_EQ(calls("<T><I ls><P dir>/srv</P><｜DSML｜parameter name=\"x"), "unterminated_tool_call");
  EXPECT_EQ(calls("<T><I ls><N o><P dir>/srv</P>"), "unterminated_tool_call");
  EXPECT_EQ(calls("<T>"), "unterminated_tool_call");
  // The second call is broken, so the first does not run either: the model meant both.
  EXPECT_EQ(calls("<T><I ls></I><I ></I></T>"), "malformed_tool_call");
}

// BC-77, BC-78: markup that is quoted, shown or cut short is text.
TEST(ToolCalls, MarkupThatIsOnlyShownIsText) {
  const std::string block = markup("<T>\n<I ls>\n</I>\n</T>");
  for (const std::string& text :
       {"Use `" + block + "`", "```\n" + block + "\n```", "```xml\n" + block,
        markup("The tag <T> opens, <I x> calls."), markup("<T> text <I x></I></T> more"),
        markup("<tool_calls><I x></I></T> <b>"), std::string("<｜DSML｜tool_"),
        std::string("<｜DSML｜tool_calls x=\"1\"><｜DSML｜invoke name=\"a\">.")}) {
    const ParsedAnswer answer = parse(text);
    EXPECT_EQ(answer.error, "") << text;
    EXPECT_TRUE(answer.calls.empty()) << text;
    EXPECT_EQ(answer.content, text);
  }
  EXPECT_EQ(calls("```\ncode\n```\n<T><I ls></I></T>"), "ls {}");
  EXPECT_EQ(parse_answer("check the time" + block, "", Finish::kStop, kSomeTool, Channel::kContent)
                .reasoning,
            "check the time" + block);
}

// BC-76: the model forgets </think>. One whole block at the very end is the call, the last one that
// opens; a draft before it stays thought.
TEST(ToolCalls, BlockAtTheEndOfUnclosedReasoningIsTheCall) {
  const auto thought = [](std::string_view text, Finish finish = Finish::kStop) {
    return parse_answer(markup(text), "", finish, kSomeTool);
  };
  ParsedAnswer answer = thought("First <T><I a><P x>1 no.\n\n<T>\n<I ls></I></T>\n ");
  EXPECT_TRUE(answer.recovered);
  EXPECT_EQ(answer.reasoning, markup("First <T><I a><P x>1 no."));
  EXPECT_EQ(answer.content, "");
  EXPECT_EQ(calls_text(answer.calls), "ls {}");
  for (const char* text : {"<T><I ls></I>", "<T><I ls></I></T>.", "<T><I ></I></T>", "<T>\n</T>",
                           "```\n<T><I ls></I></T>", "`<T><I ls></I></T>"}) {
    answer = thought(text);
    EXPECT_FALSE(answer.recovered) << text;
    EXPECT_TRUE(answer.calls.empty()) << text;
    EXPECT_EQ(answer.error, "");
    EXPECT_EQ(answer.reasoning, markup(text));
  }
  EXPECT_TRUE(thought("<T><I ls></I></T>", Finish::kLength).calls.empty());
}

TEST(ToolCalls, OrphanClosersAreRemovedOnlyWhereNothingWasOpened) {
  const auto content = [](std::string_view text) { return parse(markup(text)).content; };
  EXPECT_EQ(content("Done. \n</P>\n</I>\n</T>\n"), "Done.");
  EXPECT_EQ(content("</I> is </T>"), markup("</I> is"));
  for (const char* text : {"<T> and </T>", "</T> closes", "`</T>`", "</tool_calls>", "</invoke>"}) {
    EXPECT_EQ(content(text), markup(text));
  }
  EXPECT_EQ(parse_answer(markup("hm</I> </T>"), "x", Finish::kStop, kSomeTool).reasoning, "hm");
}

TEST(ToolCalls, OnlyTheBlankLineOfTheBlockLeavesTheContent) {
  for (const auto& [before, left] : std::vector<std::pair<std::string, std::string>>{
           {"a\r\n\r\n", "a"}, {"a\n \n", "a\n "}, {"a\n\n\n\n", "a\n\n"}, {" \n\t", ""}}) {
    EXPECT_EQ(parse(before + markup("<T><I ls></I></T>")).content, left);
  }
}

// BC-82: without tools markup is text, every byte of it.
TEST(ToolCalls, WithoutToolsNothingIsTouched) {
  const std::string block = markup("\n\n<T>\n<I ls>\n</I>\n</T>");
  for (const std::string& text : {block, markup("Answer.\n</T>"), markup("<T>")}) {
    for (const Finish finish : {Finish::kStop, Finish::kLength}) {
      const ParsedAnswer answer = parse_answer(text, text, finish, {});
      EXPECT_EQ(answer.reasoning, text);
      EXPECT_EQ(answer.content, text);
      EXPECT_TRUE(answer.calls.empty() && answer.error.empty() && !answer.truncated);
      EXPECT_EQ(parse_answer(text, "", finish, {}).reasoning, text);
    }
  }
}

// BC-83: each call is alone, in order, and its arguments are JSON on their own.
TEST(ToolCalls, ParallelCallsStayApart) {
  EXPECT_EQ(calls(R"(<T><I f><J a>{"q":"say \"hi\\n\" \u00e9 {}"}</P></I>)"
                  "\n<I f><P a>{}</P></I>\n<I g></I></T>"),
            R"(f {"a": {"q":"say \"hi\\n\" \u00e9 {}"}}; f {"a": "{}"}; g {})");
}

TEST(ToolCalls, TheSchemaDecidesWhereTheMarkIsMissing) {
  const auto put = [](std::string_view text) {
    return calls("<T><I put>" + std::string(text) + "</I></T>", Finish::kStop, put_tool());
  };
  EXPECT_EQ(put("<N path>7</P><N n>7</P><N note>7</P><N other>7</P>"),
            R"(put {"path": "7", "n": 7, "note": "7", "other": "7"})");
  EXPECT_EQ(put("<N n>seven</P>"), R"(put {"n": "seven"})");
  EXPECT_EQ(put("<N opts>\n<N deep>true</P>\n<N deep>false</P></P>"),
            R"(put {"opts": {"deep": true}})");
  EXPECT_EQ(put("<N path><P a>1</P></P><P n>1</P>"), R"(put {"path": {"a": "1"}, "n": "1"})");
  EXPECT_EQ(put("<J n>1</P><N n><P a>1</P></P><P path>x</P>"), R"(put {"n": 1, "path": "x"})");
  // With a mark a parameter in front is data.
  EXPECT_EQ(put("<P path><P a>1</P></P>"), "put " + write_json({{"path", markup("<P a>1")}}));
}

TEST(ToolCalls, AWrapperAroundAllArgumentsIsUnwrapped) {
  const auto put = [](std::string_view text) {
    return calls("<T><I put>" + std::string(text) + "</I></T>", Finish::kStop, put_tool());
  };
  EXPECT_EQ(put(R"(<P input> {"path": "a", "n": 1.50} </P>)"), R"(put {"path": "a", "n": 1.50})");
  EXPECT_EQ(put(R"(<J arguments>"{\"path\": \"a\"}"</P>)"), R"(put {"path": "a"})");
  EXPECT_EQ(put(R"(<J arguments>{}</P>)"), "put {}");
  EXPECT_EQ(put(R"(<J arguments>[1]</P>)"), R"(put {"arguments": [1]})");
  EXPECT_EQ(put(R"(<J arguments>{}</P><J n>1</P>)"), R"(put {"arguments": {}, "n": 1})");
  EXPECT_EQ(calls(R"(<T><I other><J input>{"path": 1}</P></I></T>)", Finish::kStop, put_tool()),
            R"(other {"input": {"path": 1}})");
}

// What looks like JSON to a lenient reader and is not: it would make the arguments no JSON.
TEST(ToolCalls, ValuesThatAreAlmostJsonBecomeStrings) {
  EXPECT_EQ(calls("<T><I f><J a>\uFEFF1</P></I></T>"), "f {\"a\": \"\uFEFF1\"}");
  EXPECT_EQ(calls("<T><I f><J a> </P><J b>1 2</P><J c>'x'</P><J d>Infinity</P></I></T>"),
            R"(f {"a": " ", "b": "1 2", "c": "'x'", "d": "Infinity"})");
  EXPECT_EQ(calls(std::string("<T><I f><J a>1") + '\0' + "2</P></I></T>"),
            R"(f {"a": "1\u00002"})");
  EXPECT_EQ(calls("<T><I f><J a>" + std::string(127, '[') + std::string(127, ']') + "</P></I></T>"),
            "f {\"a\": " + std::string(127, '[') + std::string(127, ']') + "}");
  EXPECT_EQ(calls("<T><I f><J a>" + std::string(128, '[') + std::string(128, ']') + "</P></I></T>"),
            "malformed_tool_call");
}

TEST(ToolCalls, NestingAndTagsHaveBounds) {
  const auto nested = [](int64_t n) {
    std::string text = "<T><I f>";
    for (int64_t i = 0; i < n; ++i) text += "<N p>";
    text += "<P x>1</P>";
    for (int64_t i = 0; i < n; ++i) text += "</P>";
    return calls(text + "</I></T>");
  };
  EXPECT_EQ(nested(2), R"(f {"p": {"p": {"x": "1"}}})");
  EXPECT_EQ(nested(dsml::kNestedParametersMax).substr(0, 4), "f {\"");
  EXPECT_EQ(nested(dsml::kNestedParametersMax + 1), "malformed_tool_call");
  EXPECT_EQ(nested(100000), "malformed_tool_call");
  EXPECT_EQ(calls("<T><I " + std::string(900, 'x') + "></I></T>"), std::string(900, 'x') + " {}");
  const std::string long_tag = markup("<T><I " + std::string(2000, 'x') + "></I>");
  EXPECT_EQ(parse(long_tag).content, long_tag);
}

// BC-84: a limit anywhere. What is returned are whole calls, in order, and no markup.
TEST(ToolCalls, ALimitAnywhereLeavesWholeCallsOnly) {
  const std::string text = markup(
      "Let me <b>look</b>.\n\n<T>\n<I ls>\n<P dir>/srv</P>\n</I>\n<I put>\n<P text>a </I> b</P>\n"
      "<J n>[1, 2]</P>\n</I>\n<I now>\n\n</I>\n</T>");
  const ParsedAnswer whole = parse(text, Finish::kLength);
  ASSERT_EQ(whole.calls.size(), 3u);
  EXPECT_FALSE(whole.truncated);
  size_t n_calls = 0;
  for (size_t n = 0; n < text.size(); ++n) {
    const std::string cut = text.substr(0, n);
    if (utf8_repair(cut)) continue;
    const ParsedAnswer answer = parse(cut, Finish::kLength);
    EXPECT_EQ(answer.error, "") << cut;
    EXPECT_EQ(answer.content.find("DSML"), std::string::npos) << cut;
    EXPECT_TRUE(text.starts_with(answer.content));
    ASSERT_GE(answer.calls.size(), n_calls) << cut;
    n_calls = answer.calls.size();
    ASSERT_LE(n_calls, whole.calls.size());
    for (size_t i = 0; i < n_calls; ++i) {
      EXPECT_EQ(answer.calls[i].arguments, whole.calls[i].arguments) << cut;
    }
    EXPECT_TRUE(answer.truncated || n_calls == 0) << cut;
  }
  EXPECT_EQ(n_calls, 3u);
}

// Rule 16: sampling stops at the closer, not one character later, and not at a closer that is data.
// Whatever the pieces are.
TEST(ToolBlockWatch, ClosesWithTheBlockWhereverTheTextIsCut) {
  const std::string block = markup(
      "`<T>` <T> \n<T>\n<I f>\n<P s>a </I> or </T> b</P>\n</I>  \n<I g>{\"s\": \"</T>\"}</I></T>");
  EXPECT_TRUE(rc::check([&] {
    ToolBlockWatch watch;
    for (size_t at = 0; at < block.size();) {
      size_t n = *rc::gen::inRange<size_t>(1, 40);
      while (at + n < block.size() && (block[at + n] & 0xC0) == 0x80) ++n;
      RC_ASSERT(!watch.closed());
      watch.push(std::string_view(block).substr(at, n));
      at += n;
    }
    RC_ASSERT(watch.closed());
    watch.push(" more");
    RC_ASSERT(watch.closed());
  }));
  ToolBlockWatch text_only;
  text_only.push("```\n" + block + "\n```");
  EXPECT_FALSE(text_only.closed());
}

}  // namespace
}  // namespace ds4::test
