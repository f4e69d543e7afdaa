// The way back from a trace: untrusted text, so every count is held against what is there.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "chat/json_text.h"
#include "chat/parse_messages.h"
#include "eval/grade.h"
#include "eval/text.h"
#include "eval/trace.h"

namespace ds4::eval {
namespace {

constexpr std::string_view kMagic = "ds4-eval trace 1";
constexpr std::string_view kCaseMark = "===== CASE ";

// Lines and framed blocks of a text.
class Reader {
 public:
  Reader(std::string_view text, std::string_view name) : rest_(text), name_(name) {}

  bool at_end() const { return rest_.empty(); }
  std::string_view peek() const { return rest_.substr(0, rest_.find('\n')); }

  std::string_view line() {
    const std::string_view line = peek();
    rest_.remove_prefix(std::min(line.size() + 1, rest_.size()));
    ++line_number_;
    return line;
  }

  // The text of a block whose BEGIN line was just read, and its END line.
  Result<std::string_view> block(std::string_view label, std::string_view count) {
    size_t bytes = 0;
    const auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), bytes);
    if (error != std::errc() || end != count.data() + count.size() || bytes > rest_.size()) {
      return wrong(fmt::format("{}_BEGIN: expected bytes=N within the file, found bytes={}", label,
                               count.substr(0, 40)));
    }
    const std::string_view text = rest_.substr(0, bytes);
    line_number_ += std::ranges::count(text, '\n');
    rest_.remove_prefix(bytes);
    const std::string_view closer = line();
    if (!closer.empty() || line() != fmt::format("{}_END", label)) {
      return wrong(fmt::format("expected {}_END after {} bytes", label, bytes));
    }
    return text;
  }

  tl::unexpected<Error> wrong(const std::string& message) const {
    return fail(ErrorCode::kCorrupt, fmt::format("{}:{}: {}", name_, line_number_, message));
  }

 private:
  std::string_view rest_;
  const std::string name_;
  int64_t line_number_ = 0;
};

struct Record {
  TraceFields fields;
  TraceFields blocks;
};

const std::string* find(const TraceFields& fields, std::string_view name) {
  const auto it = std::ranges::find_if(fields, [&](const auto& f) { return f.first == name; });
  return it == fields.end() ? nullptr : &it->second;
}

Result<void> read_field(Reader& reader, std::string_view line, TraceFields& fields) {
  const size_t colon = line.find(": ");
  if (colon == std::string_view::npos) {
    return reader.wrong(fmt::format("expected 'name: value', found '{}'", line.substr(0, 40)));
  }
  auto value = unescape_line(line.substr(colon + 2));
  if (!value) return reader.wrong(value.error().message);
  fields.emplace_back(line.substr(0, colon), std::move(*value));
  return {};
}

// Fields and blocks up to the next case.
Result<Record> read_record(Reader& reader) {
  constexpr std::string_view kBegin = "_BEGIN bytes=";
  Record record;
  while (!reader.at_end() && !reader.peek().starts_with(kCaseMark)) {
    const std::string_view line = reader.line();
    if (line.empty()) continue;
    const size_t begin = line.find(kBegin);
    // A field's name holds no blank, so its colon comes before any "_BEGIN" in its value.
    if (begin == std::string_view::npos || line.find(": ") < begin) {
      DS4_TRY_VOID(read_field(reader, line, record.fields));
      continue;
    }
    const std::string_view label = line.substr(0, begin);
    DS4_TRY(const std::string_view text, reader.block(label, line.substr(begin + kBegin.size())));
    record.blocks.emplace_back(label, text);
  }
  return record;
}

template <typename Enum>
std::optional<Enum> from_name(std::string_view name, std::initializer_list<Enum> values) {
  for (const Enum value : values) {
    if (name_of(value) == name) return value;
  }
  return std::nullopt;
}

// Fields of one case by name and type; the first that is wrong is kept.
class Fields {
 public:
  explicit Fields(const TraceFields& fields) : fields_(fields) {}

  std::string text(std::string_view name) {
    const std::string* value = find(fields_, name);
    if (value != nullptr) return *value;
    if (error_.empty()) error_ = fmt::format("expected a field {}", name);
    return {};
  }

  // Fields that may be missing are 0 then.
  int64_t count(std::string_view name) {
    const std::string* value = find(fields_, name);
    if (value == nullptr) return 0;
    int64_t number = 0;
    const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), number);
    if (error != std::errc() || end != value->data() + value->size() || number < 0) {
      mistake(name, "a count", *value);
    }
    return number;
  }

  double seconds(std::string_view name) {
    const std::string value = text(name);
    double number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || !(number >= 0)) {
      mistake(name, "seconds", value);
    }
    return number;
  }

  template <typename Enum>
  Enum one_of(std::string_view name, std::initializer_list<Enum> values) {
    const std::string value = text(name);
    const auto found = from_name(value, values);
    if (!found) mistake(name, "another name", value);
    return found.value_or(*values.begin());
  }

  const std::string& error() const { return error_; }

 private:
  void mistake(std::string_view name, std::string_view expected, const std::string& found) {
    if (!error_.empty()) return;
    error_ = fmt::format("{}: expected {}, found '{}'", name, expected, found.substr(0, 40));
  }

  const TraceFields& fields_;
  std::string error_;
};

Result<Outcome> read_outcome(const Record& record) {
  using enum CaseStatus;
  Fields fields(record.fields);
  Outcome o;
  o.id = fields.text("id");
  o.source = fields.text("source");
  o.domain = fields.text("domain");
  o.title = fields.text("title");
  o.status = fields.one_of(
      "status", {kPassed, kFailed, kSkipped, kStopped, kError, kPending, kPrefill, kThinking});
  o.expected = fields.text("expected");
  o.answer_kind = fields.one_of("answer_kind",
                                {AnswerKind::kContent, AnswerKind::kToolCalls, AnswerKind::kChoice,
                                 AnswerKind::kInteger, AnswerKind::kLineSet});
  o.n_choices = std::min(fields.count("choices"), kChoicesMax);
  o.prompt_tokens = fields.count("prompt_tokens");
  o.generated_tokens = fields.count("generated_tokens");
  o.elapsed_seconds = fields.seconds("elapsed_sec");
  o.finished_unix = fields.count("timestamp_unix");
  o.thinking = fields.text("think_mode_effective") == "think";
  o.think_close.kind = fields.one_of(
      "think_close",
      {CloseKind::kNone, CloseKind::kNatural, CloseKind::kSoftForced, CloseKind::kHardForced});
  o.think_close.token_index = fields.count("think_close_token");
  o.think_close.remaining = fields.count("think_close_remaining");
  o.think_close.rank = fields.count("think_close_rank");
  o.finish = fields.text("finish") == "length" ? Finish::kLength : Finish::kStop;
  if (const std::string* error = find(record.fields, "error")) o.error = *error;
  if (!fields.error().empty()) return fail(ErrorCode::kCorrupt, fields.error());
  const std::string* output = find(record.blocks, "MODEL_OUTPUT");
  if (output == nullptr) return fail(ErrorCode::kCorrupt, "expected a block MODEL_OUTPUT");
  o.output = *output;
  return o;
}

Result<void> grade_again(Outcome& o, const Record& record) {
  if (o.status != CaseStatus::kPassed && o.status != CaseStatus::kFailed) return {};
  std::vector<Tool> tools;
  if (const std::string* text = find(record.blocks, "TOOLS")) {
    DS4_TRY(const nlohmann::ordered_json json, parse_json(*text));
    DS4_TRY(tools, parse_tools(json));
  }
  DS4_TRY(const Expected expected, expected_from_text(o.answer_kind, o.expected, o.n_choices));
  const Grade g = grade(
      expected, {.raw = o.output, .thinking = o.thinking, .finish = o.finish, .tools = tools});
  o.status = g.passed ? CaseStatus::kPassed : CaseStatus::kFailed;
  o.picked = g.picked;
  return {};
}

}  // namespace

Result<ParsedTrace> regrade_trace(std::string_view text, std::string_view name) {
  Reader reader(text, name);
  if (reader.line() != kMagic) {
    return reader.wrong(fmt::format("expected a trace, which begins with '{}'", kMagic));
  }
  ParsedTrace trace;
  DS4_TRY(Record header, read_record(reader));
  trace.header = std::move(header.fields);
  std::unordered_map<std::string, size_t> places;
  while (!reader.at_end()) {
    reader.line();  // the mark
    DS4_TRY(const Record record, read_record(reader));
    auto outcome = read_outcome(record);
    if (!outcome) return reader.wrong("the case before: " + outcome.error().message);
    if (auto graded = grade_again(*outcome, record); !graded) {
      return reader.wrong("the case before: " + graded.error().message);
    }
    const auto [place, is_new] = places.emplace(outcome->id, trace.outcomes.size());
    outcome->index = place->second;
    if (is_new) {
      trace.outcomes.push_back(std::move(*outcome));
    } else {
      trace.outcomes[place->second] = std::move(*outcome);
    }
  }
  return trace;
}

}  // namespace ds4::eval
