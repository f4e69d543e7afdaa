#include "eval/grade.h"

#include <fmt/format.h>

#include <algorithm>

#include "chat/json_text.h"
#include "eval/extract.h"
#include "tokenizer/special_tokens.h"

namespace ds4::eval {
namespace {

using Json = nlohmann::ordered_json;

std::string_view trimmed_end(std::string_view text) {
  return text.substr(0, text.find_last_not_of(" \t\r\n\v\f") + 1);
}

// Arguments as a value; text that is no JSON stays text, and equals nothing expected.
Json arguments_of(const ToolCall& call) {
  auto value = parse_json(call.arguments);
  return value ? *value : Json(call.arguments);
}

std::string calls_text(std::span<const ToolCall> calls) {
  Json array = Json::array();
  for (const ToolCall& call : calls) {
    Json& entry = array.emplace_back(Json::object());
    entry["name"] = call.name;
    entry["arguments"] = arguments_of(call);
  }
  return write_json(array);
}

bool calls_equal(std::span<const ToolCall> a, std::span<const ToolCall> b) {
  return std::ranges::equal(a, b, [](const ToolCall& x, const ToolCall& y) {
    return x.name == y.name && json_equal(arguments_of(x), arguments_of(y));
  });
}

bool number_equal(const Json& a, const Json& b) {
  // Integers of 64 bits compare exactly; the rest by value.
  if (a.is_number_integer() && b.is_number_integer()) return a == b;
  return json_number(a) == json_number(b);
}

Grade grade_content(const Expected& expected, const SplitAnswer& split) {
  const std::string_view content = trimmed_end(split.content);
  return {content == trimmed_end(expected.text), std::string(content)};
}

Grade grade_calls(const Expected& expected, const AnswerText& answer, const SplitAnswer& split) {
  const bool in_content = split.closed || !answer.thinking;
  const ParsedAnswer parsed =
      parse_answer(split.reasoning, split.content, answer.finish, answer.tools,
                   in_content ? Channel::kContent : Channel::kReasoning);
  if (!parsed.error.empty()) return {false, parsed.error};
  return {calls_equal(expected.calls, parsed.calls), calls_text(parsed.calls)};
}

bool lines_accepted(std::span<const LineRange> picked, std::span<const LineRange> accepted) {
  const auto is_accepted = [&](int64_t line) {
    return std::ranges::any_of(
        accepted, [&](const LineRange& r) { return r.first <= line && line <= r.last; });
  };
  return !picked.empty() && std::ranges::all_of(picked, [&](const LineRange& range) {
    if (range.last < range.first) return false;
    // Walks from accepted range to accepted range, not from line to line.
    for (int64_t line = range.first; line <= range.last;) {
      if (!is_accepted(line)) return false;
      int64_t end = line;
      for (const LineRange& r : accepted) {
        if (r.first <= line && line <= r.last) end = std::max(end, r.last);
      }
      if (end >= range.last) return true;
      line = end + 1;
    }
    return true;
  });
}

Grade grade_question(const Expected& expected, std::string_view text) {
  if (expected.kind == AnswerKind::kLineSet) {
    const std::vector<LineRange> picked = pick_lines(text);
    return {lines_accepted(picked, expected.lines), to_text(picked)};
  }
  std::string picked = pick_text(expected.kind, text, expected.n_choices);
  const bool passed = !picked.empty() && picked == expected.text;
  return {passed, std::move(picked)};
}

}  // namespace

bool json_equal(const Json& a, const Json& b) {
  // Numbers with an odd spelling are stored as binary (chat/json_text.h).
  const auto is_number = [](const Json& value) { return value.is_number() || value.is_binary(); };
  if (is_number(a) || is_number(b)) return is_number(a) && is_number(b) && number_equal(a, b);
  if (a.type() != b.type() || a.size() != b.size()) return false;
  if (a.is_object()) {
    for (const auto& [key, value] : a.items()) {
      const auto other = b.find(key);
      if (other == b.end() || !json_equal(value, *other)) return false;
    }
    return true;
  }
  if (a.is_array()) return std::equal(a.begin(), a.end(), b.begin(), json_equal);
  return a == b;
}

SplitAnswer split_answer(std::string_view raw, bool thinking) {
  SplitAnswer split;
  const size_t at = raw.find(spelling::kThinkClose);
  if (at != std::string_view::npos) {
    split.closed = true;
    split.reasoning = raw.substr(0, at);
    split.content = raw.substr(at + spelling::kThinkClose.size());
  } else {
    (thinking ? split.reasoning : split.content) = raw;
  }
  if (split.reasoning.starts_with(spelling::kThinkOpen)) {
    split.reasoning.remove_prefix(spelling::kThinkOpen.size());
  }
  return split;
}

Grade grade(const Expected& expected, const AnswerText& answer) {
  const SplitAnswer split = split_answer(answer.raw, answer.thinking);
  switch (expected.kind) {
    case AnswerKind::kContent:
      return grade_content(expected, split);
    case AnswerKind::kToolCalls:
      return grade_calls(expected, answer, split);
    case AnswerKind::kChoice:
    case AnswerKind::kInteger:
    case AnswerKind::kLineSet:
      break;
  }
  return grade_question(expected, split.closed ? split.content : answer.raw);
}

std::string to_text(const Expected& expected) {
  switch (expected.kind) {
    case AnswerKind::kToolCalls:
      return calls_text(expected.calls);
    case AnswerKind::kLineSet:
      return to_text(std::span<const LineRange>(expected.lines));
    case AnswerKind::kContent:
    case AnswerKind::kChoice:
    case AnswerKind::kInteger:
      break;
  }
  return expected.text;
}

Result<Expected> expected_from_text(AnswerKind kind, std::string_view text, int64_t n_choices) {
  Expected expected{.kind = kind, .text = std::string(text), .n_choices = n_choices};
  if (kind == AnswerKind::kLineSet) {
    const auto lines = parse_line_set(text);
    if (!lines) {
      return fail(ErrorCode::kCorrupt, fmt::format("expected line numbers, found '{}'", text));
    }
    expected.lines = *lines;
    expected.text.clear();
  } else if (kind == AnswerKind::kToolCalls) {
    expected.text.clear();
    DS4_TRY(const Json array, parse_json(text));
    if (!array.is_array()) return fail(ErrorCode::kCorrupt, "expected an array of calls");
    for (const Json& entry : array) {
      if (!entry.is_object() || !entry.contains("name") || !entry["name"].is_string() ||
          !entry.contains("arguments")) {
        return fail(ErrorCode::kCorrupt, "expected calls with name and arguments");
      }
      expected.calls.push_back({.id = "",
                                .name = entry["name"].get<std::string>(),
                                .arguments = write_json(entry["arguments"])});
    }
  }
  return expected;
}

}  // namespace ds4::eval
