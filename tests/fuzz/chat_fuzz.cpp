// A client's request, and a model's answer. The first byte chooses: 'A' an answer for the
// OutputSplitter, 'T' and 't' the text of an answer with tool calls, anything else options for a
// request whose JSON is the rest.
//
// Held for requests: whatever the texts are, the prompt has the control ids that the template
// writes for a conversation of this shape and no others, and decodes to the rendered text. Held for
// answers: every chunk is whole UTF-8, and how tokens cut the bytes changes nothing. Held for tool
// calls: arguments are JSON objects, texts stay whole UTF-8, an answer without calls or with an
// error loses nothing but closers, where it was cut into pieces changes nothing, and what was
// understood is understood again after rendering.
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "chat/json_text.h"
#include "chat/output_splitter.h"
#include "chat/parse_messages.h"
#include "chat/render.h"
#include "chat/tool_calls.h"
#include "tests/fuzz/input.h"
#include "tokenizer/utf8.h"

namespace ds4 {
namespace {

using fuzz::Input;
using nlohmann::ordered_json;

// Bytes, a few merges that build pieces of markers, and every control token of the format.
const Tokenizer& tokenizer() {
  static const Tokenizer made = [] {
    VocabData vocab;
    for (int byte = 0; byte < 256; ++byte) {
      vocab.tokens.push_back(byte_stand_in(static_cast<uint8_t>(byte)));
    }
    for (const char* merge : {"t h", "th i", "thi n", "thin k", "< /", "D S", "M L"}) {
      const std::string text(merge);
      const size_t gap = text.find(' ');
      vocab.merges.push_back(text);
      vocab.tokens.push_back(text.substr(0, gap) + text.substr(gap + 1));
    }
    vocab.token_types.assign(vocab.tokens.size(), kTokenTypeNormal);
    for (const std::string_view text :
         {spelling::kBos, spelling::kEos, spelling::kPad, spelling::kUser, spelling::kAssistant,
          spelling::kThinkOpen, spelling::kThinkClose, spelling::kDsml, spelling::kLatestReminder,
          task_spelling(Task::kAction), task_spelling(Task::kQuery),
          task_spelling(Task::kAuthority), task_spelling(Task::kDomain),
          task_spelling(Task::kTitle), task_spelling(Task::kReadUrl)}) {
      vocab.tokens.emplace_back(text);
      vocab.token_types.push_back(kTokenTypeControl);
    }
    auto created = Tokenizer::create(std::move(vocab));
    DS4_CHECK(created.has_value());
    return std::move(*created);
  }();
  return made;
}

std::string repaired(std::string_view text) {
  return utf8_repair(text).value_or(std::string(text));
}

std::vector<Token> control_ids(const std::vector<Token>& tokens) {
  std::vector<Token> ids;
  for (const Token token : tokens) {
    if (tokenizer().is_control(token)) ids.push_back(token);
  }
  return ids;
}

std::string harmless(const std::string& text) { return text.empty() ? "" : "x"; }

// Arguments that render to as many parameters of the same kinds.
std::string harmless_arguments(const std::string& arguments) {
  const auto parsed = parse_json(arguments);
  if (!parsed || !parsed->is_object()) return "x";
  ordered_json twin = ordered_json::object();
  for (const auto& item : parsed->items()) {
    const std::string name = "k" + std::to_string(twin.size());
    twin[name] = item.value().is_string() ? ordered_json("x") : ordered_json(0);
  }
  return write_json(twin);
}

// The same conversation with nothing in it that could be taken for markup.
Conversation harmless_twin(const Conversation& made) {
  Conversation twin = made;
  for (Message& message : twin.messages) {
    message.content = harmless(message.content);
    message.reasoning = harmless(message.reasoning);
    for (ToolCall& call : message.tool_calls) {
      call.name = "x";
      call.arguments = harmless_arguments(call.arguments);
    }
  }
  for (Tool& tool : twin.tools) tool = {"x", R"({"name": "x"})"};
  if (twin.response_schema) twin.response_schema = "{}";
  return twin;
}

void check_prompt(const Conversation& made, const RenderOptions& options) {
  const auto segments = render(made, options);
  if (!segments) return;
  const auto tokens = render_tokens(made, options, tokenizer());
  DS4_CHECK(tokens.has_value());
  DS4_CHECK(tokenizer().decode(*tokens) == repaired(to_text(*segments)));

  std::vector<Token> from_template;
  for (const Segment& segment : *segments) {
    if (segment.kind == SegmentKind::kContent) continue;
    for (const Token token : control_ids(tokenizer().encode_rendered(segment.text))) {
      from_template.push_back(token);
    }
  }
  DS4_CHECK(control_ids(*tokens) == from_template);

  const auto twin = render_tokens(harmless_twin(made), options, tokenizer());
  DS4_CHECK(twin.has_value());
  DS4_CHECK(control_ids(*twin) == from_template);
}

// What was read is written in a form that reads as the same.
void check_json(const ordered_json& value) {
  const std::string text = write_json(value);
  const auto again = parse_json(text);
  DS4_CHECK(again.has_value());
  DS4_CHECK(write_json(*again) == text);
}

void check_request(uint8_t flags, std::string_view text) {
  const auto parsed = parse_request_json(text);
  if (const auto strict = parse_json(text)) {
    DS4_CHECK(parsed.has_value());
    check_json(*strict);
  }
  if (!parsed) return;
  const auto member = [&](const char* name) {
    const bool has = parsed->is_object() && parsed->contains(name);
    return has ? (*parsed)[name] : ordered_json(nullptr);
  };
  Conversation made;
  auto messages = parse_messages(parsed->is_array() ? *parsed : member("messages"),
                                 {.internal = (flags & 1) != 0});
  auto tools = parse_tools(member("tools"));
  auto schema = parse_response_format(member("response_format"));
  (void)json_number(member("temperature"));
  if (!messages || !tools || !schema) return;
  made.messages = std::move(*messages);
  made.tools = std::move(*tools);
  made.response_schema = std::move(*schema);
  RenderOptions options;
  options.thinking.mode = (flags & 2) != 0 ? ThinkingMode::kChat : ThinkingMode::kThinking;
  options.thinking.effort = (flags & 4) != 0 ? Effort::kMax : Effort::kLow;
  options.profile = (flags & 8) != 0 ? EffortProfile::kOfficial : EffortProfile::kPreview;
  options.drop_thinking = (flags & 16) == 0;
  check_prompt(made, options);
}

struct Piece {
  Token token = 0;
  std::string bytes;
};

// One control byte a token: 0xF0 and above is a marker, anything below the length of a text token.
std::vector<Piece> pieces_of(Input input) {
  const SpecialTokens& special = tokenizer().special();
  const Token markers[] = {special.think_open, special.think_close, special.dsml, special.eos,
                           special.user};
  std::vector<Piece> pieces;
  while (!input.empty()) {
    const auto head = input.take<uint8_t>();
    if (head >= 0xF0) {
      const Token token = markers[head % std::size(markers)];
      pieces.push_back({token, std::string(tokenizer().bytes_of(token))});
    } else {
      pieces.push_back({0, std::string(input.take_bytes(head % 24))});
    }
  }
  return pieces;
}

// The chunks of an answer, neighbours of one channel joined.
std::vector<OutputChunk> split(const std::vector<Piece>& pieces, ThinkingMode mode) {
  OutputSplitter splitter(tokenizer().special(), mode);
  std::vector<OutputChunk> joined;
  const auto add = [&](const std::vector<OutputChunk>& chunks) {
    for (const OutputChunk& chunk : chunks) {
      DS4_CHECK(!chunk.text.empty());
      DS4_CHECK(!utf8_repair(chunk.text));
      if (joined.empty() || joined.back().channel != chunk.channel) {
        joined.push_back(chunk);
      } else {
        joined.back().text += chunk.text;
      }
    }
  };
  for (const Piece& piece : pieces) add(splitter.push(piece.token, piece.bytes));
  add(splitter.finish());
  DS4_CHECK(splitter.finish().empty());
  return joined;
}

void check_answer(const Input& input, ThinkingMode mode) {
  const std::vector<Piece> pieces = pieces_of(input);
  const std::vector<OutputChunk> chunks = split(pieces, mode);
  std::vector<Piece> single;
  std::string text;
  bool has_marker = false;
  for (const Piece& piece : pieces) {
    if (piece.token != 0) {
      single.push_back(piece);
      has_marker = true;
      continue;
    }
    for (const char byte : piece.bytes) single.push_back({0, std::string(1, byte)});
    text += piece.bytes;
  }
  DS4_CHECK(split(single, mode) == chunks);
  if (has_marker) return;
  const std::string all = chunks.empty() ? "" : chunks[0].text;
  DS4_CHECK(chunks.size() <= 1 && all == repaired(text));
}

const std::vector<Tool>& some_tools() {
  static const std::vector<Tool> tools = {
      {"put",
       R"({"name": "put", "parameters": {"properties": {"path": {"type": "string"},
           "n": {"type": "integer"}, "o": {"type": "object", "properties": {"b": {}}}}}})"},
      {"now", R"({"name": "now"})"}};
  return tools;
}

bool is_object(const std::string& text) {
  const auto parsed = parse_json(text);
  return parsed && parsed->is_object();
}

// A key or value that ends its own tag early cannot come back: the format has no escapes.
bool is_plain(const std::string& text) {
  return text.find_first_of("<>\"\n\r\\") == std::string::npos && text.size() < 200;
}

bool has_plain_arguments(const ToolCall& call) {
  if (!is_plain(call.name) || !is_plain(call.arguments)) return false;
  const auto parsed = parse_json(call.arguments);
  DS4_CHECK(parsed.has_value());
  for (const auto& item : parsed->items()) {
    if (!is_plain(item.key()) || item.key() == "arguments" || item.key() == "input") return false;
  }
  return true;
}

void check_rendered_calls(const std::vector<ToolCall>& calls) {
  Conversation made;
  made.messages.resize(1);
  made.messages[0].role = Role::kAssistant;
  for (const ToolCall& call : calls) {
    if (has_plain_arguments(call)) made.messages[0].tool_calls.push_back(call);
  }
  if (made.messages[0].tool_calls.empty()) return;
  const auto segments = render(made, {.thinking = {.mode = ThinkingMode::kChat}});
  DS4_CHECK(segments.has_value());
  const ParsedAnswer again =
      parse_answer("", to_text(*segments), Finish::kStop, some_tools(), Channel::kContent);
  DS4_CHECK(again.error.empty());
  DS4_CHECK(again.calls.size() == made.messages[0].tool_calls.size());
  for (size_t i = 0; i < again.calls.size(); ++i) {
    const ToolCall& call = made.messages[0].tool_calls[i];
    DS4_CHECK(again.calls[i].name == call.name);
    DS4_CHECK(write_json(*parse_json(again.calls[i].arguments)) ==
              write_json(*parse_json(call.arguments)));
  }
}

void check_parsed(const ParsedAnswer& answer, const std::string& text, bool in_content) {
  DS4_CHECK(!utf8_repair(answer.reasoning) && !utf8_repair(answer.content));
  for (const ToolCall& call : answer.calls) {
    DS4_CHECK(!call.name.empty() && is_object(call.arguments) && !utf8_repair(call.arguments));
  }
  const std::string& kept = in_content ? answer.content : answer.reasoning;
  DS4_CHECK(text.starts_with(kept));
  if (!answer.error.empty()) DS4_CHECK(answer.calls.empty() && kept == text);
  if (answer.calls.empty() && answer.error.empty() && !answer.truncated) {
    // Only closers may have gone, or the markup of an empty block.
    const std::string_view gone = std::string_view(text).substr(kept.size());
    DS4_CHECK(gone.empty() || gone.find("DSML") != std::string_view::npos ||
              gone.find("tool_calls") != std::string_view::npos);
  }
}

// The whole text in one push, and one character a push: closed at the same place.
void check_watch(const std::string& text, const ParsedAnswer& limited) {
  ToolBlockWatch whole, single;
  whole.push(text);
  size_t closed_at = 0;
  for (size_t at = 0; at < text.size() && !single.closed();) {
    const auto n = static_cast<size_t>(utf8_step(text, static_cast<int64_t>(at)).n_bytes);
    single.push(std::string_view(text).substr(at, n));
    at += n;
    closed_at = at;
  }
  DS4_CHECK(whole.closed() == single.closed());
  if (limited.error.empty() && !limited.calls.empty()) {
    DS4_CHECK(single.closed() == !limited.truncated);
  }
  if (!single.closed()) return;
  const ParsedAnswer stopped =
      parse_answer("", text.substr(0, closed_at), Finish::kStop, some_tools(), Channel::kContent);
  const ParsedAnswer full = parse_answer("", text, Finish::kStop, some_tools(), Channel::kContent);
  DS4_CHECK(stopped.error == full.error && stopped.calls.size() == full.calls.size());
  DS4_CHECK(!full.error.empty() || stopped.content == full.content);
}

void check_tool_calls(std::string_view bytes, Finish finish) {
  const std::string text = repaired(bytes);
  const ParsedAnswer said = parse_answer("", text, finish, some_tools(), Channel::kContent);
  check_parsed(said, text, /*in_content=*/true);
  DS4_CHECK(said.reasoning.empty() && !said.recovered);
  DS4_CHECK(!said.truncated || finish == Finish::kLength);
  const ParsedAnswer thought = parse_answer(text, "", finish, some_tools());
  check_parsed(thought, text, /*in_content=*/false);
  DS4_CHECK(thought.content.empty() && thought.error.empty() && !thought.truncated);
  DS4_CHECK(thought.recovered == !thought.calls.empty());
  const ParsedAnswer off = parse_answer(text, text, finish, {});
  DS4_CHECK(off.reasoning == text && off.content == text && off.calls.empty());
  if (finish == Finish::kLength) check_watch(text, said);
  check_rendered_calls(said.calls);
}

}  // namespace
}  // namespace ds4

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ds4;
  Input input(data, size);
  const auto flags = input.take<uint8_t>();
  if (flags == 'A' || flags == 'a') {
    check_answer(input, flags == 'A' ? ThinkingMode::kThinking : ThinkingMode::kChat);
  } else if (flags == 'T' || flags == 't') {
    check_tool_calls(input.rest(), flags == 'T' ? Finish::kStop : Finish::kLength);
  } else {
    check_request(flags, input.rest());
  }
  return 0;
}
