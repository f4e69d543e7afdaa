#include "eval/case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <unordered_map>

#include "base/mapped_file.h"
#include "chat/json_text.h"
#include "chat/parse_messages.h"
#include "eval/text.h"
#include "tokenizer/utf8.h"

namespace ds4::eval {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kNameBytesMax = 256;
constexpr size_t kTitleBytesMax = 120;
constexpr size_t kDigitsMax = 100;

tl::unexpected<Error> wrong(std::string message) {
  return fail(ErrorCode::kCorrupt, std::move(message));
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

const Json* find(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

Result<std::string> text_of(const Json& object, const char* key, bool required) {
  const Json* value = find(object, key);
  if (value == nullptr && !required) return std::string();
  if (value == nullptr) return wrong(fmt::format("{}: expected a string, found nothing", key));
  if (!value->is_string()) {
    return wrong(fmt::format("{}: expected a string, found {}", key, value->type_name()));
  }
  return value->get<std::string>();
}

// Names stand in tables and in single lines of a trace.
Result<std::string> name_of(const Json& object, const char* key, bool required) {
  DS4_TRY(std::string name, text_of(object, key, required));
  if (required && name.empty()) return wrong(fmt::format("{}: expected text, found none", key));
  if (name.size() > kNameBytesMax) {
    return wrong(
        fmt::format("{}: expected at most {} bytes, found {}", key, kNameBytesMax, name.size()));
  }
  if (std::ranges::any_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7f; })) {
    return wrong(fmt::format("{}: expected no control characters", key));
  }
  return name;
}

// One line for lists.
std::string title_from(std::string_view line) {
  std::string title = shortened(line, kTitleBytesMax);
  for (char& c : title) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return title;
}

// The question usually stands at the end of a message, after what it is about.
std::string last_line(std::string_view text) {
  const size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string_view::npos) return {};
  text = text.substr(0, end + 1);
  const size_t newline = text.rfind('\n');
  return title_from(newline == std::string_view::npos ? text : text.substr(newline + 1));
}

std::string first_line(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  text = text.substr(begin);
  return title_from(text.substr(0, text.find('\n')));
}

Result<ToolCall> expected_call(const Json& value) {
  if (!value.is_object()) {
    return wrong(fmt::format("expected an object, found {}", value.type_name()));
  }
  ToolCall call;
  DS4_TRY(call.name, name_of(value, "name", true));
  const Json* arguments = find(value, "arguments");
  if (arguments == nullptr || !arguments->is_object()) {
    return wrong(fmt::format("arguments: expected an object, found {}",
                             arguments == nullptr ? "nothing" : arguments->type_name()));
  }
  call.arguments = write_json(*arguments);
  return call;
}

Result<Expected> parse_expect(const Json& expect) {
  if (!expect.is_object()) {
    return wrong(fmt::format("expect: expected an object, found {}", expect.type_name()));
  }
  const Json* content = find(expect, "content");
  const Json* calls = find(expect, "tool_calls");
  if ((content == nullptr) == (calls == nullptr)) {
    return wrong(fmt::format("expect: expected content or tool_calls, found {}",
                             content == nullptr ? "neither" : "both"));
  }
  Expected expected;
  if (content != nullptr) {
    if (!content->is_string()) {
      return wrong(
          fmt::format("expect.content: expected a string, found {}", content->type_name()));
    }
    expected.text = content->get<std::string>();
    return expected;
  }
  expected.kind = AnswerKind::kToolCalls;
  if (!calls->is_array() || calls->empty()) {
    return wrong("expect.tool_calls: expected an array of at least one call");
  }
  for (size_t i = 0; i < calls->size(); ++i) {
    auto call = expected_call((*calls)[i]);
    if (!call) return fail_within(fmt::format("expect.tool_calls[{}]", i), call.error());
    expected.calls.push_back(std::move(*call));
  }
  return expected;
}

Result<Case> parse_conversation(const Json& object) {
  Case c;
  DS4_TRY(c.source, name_of(object, "kind", false));
  if (c.source.empty()) c.source = "conversation";
  const Json* messages = find(object, "messages");
  if (messages == nullptr) return wrong("messages: expected an array, found nothing");
  DS4_TRY(c.conversation.messages, parse_messages(*messages));
  if (c.conversation.messages.empty() || c.conversation.messages.back().role == Role::kAssistant) {
    return wrong("messages: expected a last message to answer, from a user or a tool");
  }
  const Json* tools = find(object, "tools");
  if (tools != nullptr) {
    DS4_TRY(c.conversation.tools, parse_tools(*tools));
  }
  const Json* think = find(object, "think");
  if (think != nullptr) {
    if (!think->is_boolean()) {
      return wrong(fmt::format("think: expected true or false, found {}", think->type_name()));
    }
    c.think = think->get<bool>();
  }
  for (const Message& message : c.conversation.messages) {
    if (message.role == Role::kUser) c.title = last_line(message.content);
  }
  DS4_TRY(c.expected, parse_expect(object["expect"]));
  return c;
}

Result<Expected> choice_answer(const Json& answer, int64_t n_choices) {
  const char last = static_cast<char>('A' + n_choices - 1);
  std::string letter = answer.is_string() ? answer.get<std::string>() : std::string();
  if (letter.size() == 1) {
    letter[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(letter[0])));
  }
  if (letter.size() != 1 || letter[0] < 'A' || letter[0] > last) {
    return wrong(fmt::format("answer: expected a letter from A to {} for {} choices, found {}",
                             last, n_choices, answer.dump()));
  }
  return Expected{.kind = AnswerKind::kChoice, .text = letter, .n_choices = n_choices};
}

// [3, 4] -> "3,4"; a text as it is; a number as its digits.
std::string answer_text(const Json& answer) {
  if (answer.is_string()) return answer.get<std::string>();
  if (answer.is_number_integer()) return answer.dump();
  std::string joined;
  if (!answer.is_array()) return joined;
  for (const Json& element : answer) {
    if (!joined.empty()) joined += ',';
    joined += element.is_number_integer() ? element.dump() : "?";
  }
  return joined;
}

Result<Expected> parse_answer(const Json& answer, const std::string& source, int64_t n_choices) {
  if (n_choices > 0) return choice_answer(answer, n_choices);
  const std::string text = answer_text(answer);
  const auto integer = canonical_integer(text);
  if (integer && !answer.is_array() && source != "COMPSEC") {
    return Expected{.kind = AnswerKind::kInteger, .text = *integer};
  }
  const auto lines = parse_line_set(text);
  if (!lines) {
    return wrong(
        fmt::format("answer: expected an integer, or line numbers such as \"12, 15-17\", found {}",
                    write_json(answer)));
  }
  return Expected{.kind = AnswerKind::kLineSet, .lines = *lines};
}

Result<Case> parse_question(const Json& object) {
  Case c;
  DS4_TRY(c.source, name_of(object, "source", false));
  if (c.source.empty()) c.source = "question";
  DS4_TRY(c.domain, name_of(object, "domain", false));
  DS4_TRY(c.title, text_of(object, "title", false));
  DS4_TRY(c.question, text_of(object, "question", true));
  if (c.question.find_first_not_of(" \t\r\n") == std::string::npos) {
    return wrong("question: expected text, found none");
  }
  c.title = first_line(c.title.empty() ? c.question : c.title);
  if (const Json* choices = find(object, "choices"); choices != nullptr) {
    if (!choices->is_array() || std::ssize(*choices) > kChoicesMax) {
      return wrong(fmt::format("choices: expected an array of at most {} strings", kChoicesMax));
    }
    for (const Json& choice : *choices) {
      if (!choice.is_string()) {
        return wrong(fmt::format("choices[{}]: expected a string, found {}", c.choices.size(),
                                 choice.type_name()));
      }
      c.choices.push_back(choice.get<std::string>());
    }
  }
  const Json* answer = find(object, "answer");
  if (answer == nullptr) {
    return wrong("answer: expected a letter, an integer or line numbers, found nothing");
  }
  DS4_TRY(c.expected, parse_answer(*answer, c.source, std::ssize(c.choices)));
  return c;
}

Result<Case> parse_case(std::string_view line) {
  if (utf8_repair(line)) return wrong("expected UTF-8, found other bytes");
  DS4_TRY(const Json object, parse_json(line));
  if (!object.is_object()) {
    return wrong(fmt::format("expected an object, found {}", object.type_name()));
  }
  const bool conversation = find(object, "expect") != nullptr;
  if (!conversation && find(object, "question") == nullptr) {
    return wrong("expected a case: an object with `expect` and `messages`, or with `question`");
  }
  DS4_TRY(std::string id, name_of(object, "id", true));
  DS4_TRY(Case c, conversation ? parse_conversation(object) : parse_question(object));
  c.id = std::move(id);
  return c;
}

}  // namespace

const char* name_of(AnswerKind kind) {
  switch (kind) {
    case AnswerKind::kContent:
      return "content";
    case AnswerKind::kToolCalls:
      return "tool_calls";
    case AnswerKind::kChoice:
      return "choice";
    case AnswerKind::kInteger:
      return "integer";
    case AnswerKind::kLineSet:
      return "line_set";
  }
  return "";
}

std::optional<std::string> canonical_integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty() || text.size() > kDigitsMax || !std::ranges::all_of(text, is_digit)) {
    return std::nullopt;
  }
  text.remove_prefix(std::min(text.find_first_not_of('0'), text.size() - 1));
  return (negative && text != "0" ? "-" : "") + std::string(text);
}

std::optional<std::vector<LineRange>> parse_line_set(std::string_view text) {
  std::vector<LineRange> ranges;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto skip_spaces = [&] {
    while (at != end && (*at == ' ' || *at == '\t')) ++at;
  };
  const auto number = [&](int64_t& value) {
    skip_spaces();
    const auto [next, error] = std::from_chars(at, end, value);
    const bool good = error == std::errc() && value >= 1;
    at = next;
    skip_spaces();
    return good;
  };
  while (true) {
    LineRange range;
    if (!number(range.first)) return std::nullopt;
    range.last = range.first;
    if (at != end && *at == '-') {
      ++at;
      if (!number(range.last) || range.last < range.first) return std::nullopt;
    }
    ranges.push_back(range);
    if (at == end) return ranges;
    if (*at++ != ',') return std::nullopt;
  }
}

Result<std::vector<Case>> parse_cases(std::string_view text, std::string_view name) {
  std::vector<Case> cases;
  std::unordered_map<std::string, int64_t> line_of_id;
  int64_t number = 0;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  while (!text.empty()) {
    const size_t size = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, size);
    text.remove_prefix(std::min(size + 1, text.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    auto parsed = parse_case(line);
    if (!parsed) return fail_within(fmt::format("{}:{}", name, number), parsed.error());
    parsed->line = number;
    const auto [earlier, is_new] = line_of_id.emplace(parsed->id, number);
    if (!is_new) {
      return wrong(fmt::format("{}:{}: id: expected another than that of line {}, found '{}'", name,
                               number, earlier->second, parsed->id));
    }
    if (std::ssize(cases) == kCasesMax) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}:{}: expected at most {} cases", name, number, kCasesMax));
    }
    cases.push_back(std::move(*parsed));
  }
  if (cases.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: expected cases, one JSON object a line; found none", name));
  }
  return cases;
}

Result<std::vector<Case>> load_cases(const std::string& path) {
  DS4_TRY(const MappedFile file, MappedFile::open(path));
  const auto bytes = file.bytes();
  if (std::ssize(bytes) > kCaseFileBytesMax) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: expected at most {} bytes of cases, found {}", path,
                            kCaseFileBytesMax, bytes.size()));
  }
  return parse_cases({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

}  // namespace ds4::eval
