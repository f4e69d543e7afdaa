#include "chat/render.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "chat/json_text.h"
#include "chat/protocol.h"
#include "tokenizer/special_tokens.h"

namespace ds4 {
namespace {

// A turn is what stands between two markers: one message, or neighbouring user and tool messages,
// which share a user turn (the format has no tool role).
struct Turn {
  Role role = Role::kSystem;  // never kTool
  std::vector<const Message*> blocks;
  std::optional<Task> task;
  bool carries_tools = false;  // the tools section and the response schema follow its content

  bool asks() const { return role == Role::kUser || role == Role::kDeveloper; }
};

// A message joins the user turn before it, unless that turn has a task and the newcomer is a user:
// a task closes its turn. The task of a newcomer that joins is dropped, as in the reference
// encoder.
std::vector<Turn> group_into_turns(const std::vector<Message>& messages) {
  std::vector<Turn> turns;
  for (const Message& message : messages) {
    const bool is_tool = message.role == Role::kTool;
    if ((is_tool || message.role == Role::kUser) && !turns.empty() &&
        turns.back().role == Role::kUser && (is_tool || !turns.back().task)) {
      turns.back().blocks.push_back(&message);
      continue;
    }
    Turn turn;
    turn.role = is_tool ? Role::kUser : message.role;
    turn.blocks = {&message};
    if (!is_tool) turn.task = message.task;
    turns.push_back(std::move(turn));
  }
  return turns;
}

// Clients return the results of parallel calls in the order they finish. Results inside a turn take
// the order of the calls they answer; text between them keeps its place.
void sort_results(std::vector<Turn>& turns) {
  std::map<std::string_view, size_t> call_order;  // of the latest assistant turn with calls
  for (Turn& turn : turns) {
    if (turn.role == Role::kAssistant && !turn.blocks[0]->tool_calls.empty()) {
      call_order.clear();
      const auto& calls = turn.blocks[0]->tool_calls;
      for (size_t i = 0; i < calls.size(); ++i) call_order[calls[i].id] = i;
    }
    if (turn.role != Role::kUser) continue;
    std::vector<const Message*> results;
    for (const Message* block : turn.blocks) {
      if (block->role == Role::kTool) results.push_back(block);
    }
    const auto position = [&](const Message* result) {
      const auto found = call_order.find(result->tool_call_id);
      return found == call_order.end() ? 0 : found->second;
    };
    std::stable_sort(results.begin(), results.end(),
                     [&](const Message* a, const Message* b) { return position(a) < position(b); });
    auto next = results.begin();
    for (const Message*& block : turn.blocks) {
      if (block->role == Role::kTool) block = *next++;
    }
  }
}

int64_t last_asking(const std::vector<Turn>& turns) {
  int64_t last = static_cast<int64_t>(turns.size()) - 1;
  while (last >= 0 && !turns[last].asks()) --last;
  return last;
}

class Renderer {
 public:
  Renderer(const Conversation& conversation, const RenderOptions& options)
      : conversation_(conversation),
        thinking_(options.thinking.mode == ThinkingMode::kThinking),
        keep_(!options.drop_thinking || !conversation.tools.empty()),
        prefix_(effort_prefix(options.profile, options.thinking.effort)) {}

  Result<std::vector<Segment>> run();

 private:
  void scaffold(std::string_view text) { add(SegmentKind::kScaffold, text); }
  void content(std::string_view text) { add(SegmentKind::kContent, text); }
  void add(SegmentKind kind, std::string_view text);

  void make_turns();
  Result<void> turn(int64_t index);
  void user_blocks(const Turn& turn);
  void tools_and_schema();
  Result<void> assistant(int64_t index);
  Result<void> tool_call(const ToolCall& call);
  void parameter(std::string_view name, std::string_view value, bool is_string);
  void transition(int64_t index);
  void header(int64_t index);

  const Conversation& conversation_;
  const bool thinking_;
  const bool keep_;  // reasoning of all turns stays
  const std::string_view prefix_;
  const Message no_message_;  // what an invented carrier of the tools section says
  std::vector<Turn> turns_;
  int64_t last_ = -1;   // the last user or developer turn
  int64_t owner_ = -1;  // the turn whose generation header is still to be written
  std::vector<Segment> segments_;
};

void Renderer::add(SegmentKind kind, std::string_view text) {
  if (text.empty()) return;
  if (segments_.empty() || segments_.back().kind != kind) segments_.push_back({kind, -1, {}});
  segments_.back().text += text;
}

void Renderer::make_turns() {
  turns_ = group_into_turns(conversation_.messages);
  sort_results(turns_);
  if (!conversation_.tools.empty() || conversation_.response_schema) {
    const bool has_carrier =
        !turns_.empty() && (turns_[0].role == Role::kSystem || turns_[0].role == Role::kDeveloper);
    if (!has_carrier) {
      Turn carrier;
      carrier.blocks = {&no_message_};
      turns_.insert(turns_.begin(), std::move(carrier));
    }
    turns_[0].carries_tools = true;
  }
  last_ = last_asking(turns_);
  if (!thinking_ || keep_) return;
  // With the old reasoning goes the developer text that was written for it.
  const auto old = [](const Turn& turn) { return turn.role == Role::kDeveloper; };
  const auto end = turns_.begin() + std::max<int64_t>(last_, 0);
  turns_.erase(std::remove_if(turns_.begin(), end, old), end);
  last_ = last_asking(turns_);
}

Result<std::vector<Segment>> Renderer::run() {
  make_turns();
  scaffold(spelling::kBos);
  if (thinking_) scaffold(prefix_);
  for (int64_t i = 0; i < static_cast<int64_t>(turns_.size()); ++i) {
    DS4_TRY_VOID(turn(i));
    transition(i);
  }
  return std::move(segments_);
}

Result<void> Renderer::turn(int64_t index) {
  const Turn& turn = turns_[index];
  switch (turn.role) {
    case Role::kSystem:
      content(turn.blocks[0]->content);
      break;
    case Role::kDeveloper:
      if (turn.blocks[0]->content.empty()) {
        return fail(ErrorCode::kInvalidArgument, "developer message: expected content, found none");
      }
      scaffold(spelling::kUser);
      content(turn.blocks[0]->content);
      break;
    case Role::kReminder:
      scaffold(spelling::kLatestReminder);
      content(turn.blocks[0]->content);
      break;
    case Role::kAssistant:
      return assistant(index);
    case Role::kUser:
    case Role::kTool:
      user_blocks(turn);
      break;
  }
  if (turn.carries_tools) tools_and_schema();
  return {};
}

void Renderer::user_blocks(const Turn& turn) {
  scaffold(spelling::kUser);
  for (const Message* block : turn.blocks) {
    if (block != turn.blocks[0]) scaffold("\n\n");
    const bool is_result = block->role == Role::kTool;
    if (is_result) scaffold(protocol::kToolResultOpen);
    content(block->content);
    if (is_result) scaffold(protocol::kToolResultClose);
  }
}

void Renderer::tools_and_schema() {
  if (!conversation_.tools.empty()) {
    scaffold("\n\n");
    scaffold(protocol::kToolsHead);
    for (const Tool& tool : conversation_.tools) {
      if (&tool != &conversation_.tools[0]) scaffold("\n");
      content(tool.schema);
    }
    scaffold(protocol::kToolsTail);
  }
  if (conversation_.response_schema) {
    scaffold("\n\n");
    scaffold(protocol::kResponseFormatHead);
    content(*conversation_.response_schema);
  }
}

Result<void> Renderer::assistant(int64_t index) {
  const Message& message = *turns_[index].blocks[0];
  // The answer to a task comes without thinking, so no marker belongs there.
  const bool answers_task = index > 0 && turns_[index - 1].task.has_value();
  if (thinking_ && !answers_task && (keep_ || index > last_)) {
    content(message.reasoning);
    scaffold(spelling::kThinkClose);
  }
  content(message.content);
  if (!message.tool_calls.empty()) {
    scaffold("\n\n");
    scaffold(protocol::kToolCallsOpen);
    for (const ToolCall& call : message.tool_calls) {
      if (&call != &message.tool_calls[0]) scaffold("\n");
      DS4_TRY_VOID(tool_call(call));
    }
    scaffold(protocol::kToolCallsClose);
  }
  if (!message.unfinished) scaffold(spelling::kEos);
  return {};
}

Result<void> Renderer::tool_call(const ToolCall& call) {
  scaffold(protocol::kInvokeOpen);
  content(call.name);
  scaffold("\">\n");
  const auto arguments = parse_json(call.arguments);
  if (!arguments && arguments.error().code == ErrorCode::kUnsupported) {
    return fail_within(fmt::format("arguments of call '{}'", call.id), arguments.error());
  }
  if (arguments && arguments->is_object()) {
    bool first = true;
    for (const auto& [name, value] : arguments->items()) {
      if (!std::exchange(first, false)) scaffold("\n");
      const bool is_string = value.is_string();
      parameter(name, is_string ? value.get_ref<const std::string&>() : write_json(value),
                is_string);
    }
  } else {
    // Not an object, or not JSON at all: the model still sees what it wrote.
    parameter("arguments", call.arguments, /*is_string=*/true);
  }
  scaffold(protocol::kInvokeClose);
  return {};
}

void Renderer::parameter(std::string_view name, std::string_view value, bool is_string) {
  scaffold(protocol::kParameterOpen);
  content(name);
  scaffold(is_string ? protocol::kParameterString : protocol::kParameterJson);
  content(value);
  scaffold(protocol::kParameterClose);
}

// What stands between turn `index` and the next. A turn that asks, or carries a task, owns a
// header, which is written when the assistant is about to speak. Two cases go beyond the reference
// encoder, which looks at the next turn only: system text after a question does not swallow the
// header (an answer without a marker would read as part of the question), and reminders at the end
// come before it.
void Renderer::transition(int64_t index) {
  const Turn& turn = turns_[index];
  if (turn.asks() || turn.task) owner_ = index;
  if (owner_ < 0) return;
  const auto rest = std::span<const Turn>(turns_).subspan(index + 1);
  const auto is_reminder = [](const Turn& t) { return t.role == Role::kReminder; };
  const bool speaks = rest.empty() || rest[0].role == Role::kAssistant ||
                      (is_reminder(rest[0]) && !std::all_of(rest.begin(), rest.end(), is_reminder));
  if (speaks) header(owner_);
  if (speaks || rest[0].asks()) owner_ = -1;
}

void Renderer::header(int64_t index) {
  const Turn& turn = turns_[index];
  if (turn.task && *turn.task != Task::kAction) {
    scaffold(task_spelling(*turn.task));
    return;
  }
  // An action is decided with thinking on whenever the mode allows it; a question far back in the
  // history was answered by a turn whose reasoning is gone.
  const bool opens = thinking_ && (turn.task || keep_ || index >= last_);
  scaffold(spelling::kAssistant);
  scaffold(opens ? spelling::kThinkOpen : spelling::kThinkClose);
  if (turn.task) scaffold(task_spelling(*turn.task));
}

}  // namespace

Result<std::vector<Segment>> render(const Conversation& conversation,
                                    const RenderOptions& options) {
  return Renderer(conversation, options).run();
}

std::string to_text(std::span<const Segment> segments) {
  std::string text;
  for (const Segment& segment : segments) text += segment.text;
  return text;
}

Result<std::vector<Token>> render_tokens(const Conversation& conversation,
                                         const RenderOptions& options, const Tokenizer& tokenizer) {
  for (const Message& message : conversation.messages) {
    std::string_view marker;
    if (message.role == Role::kReminder) marker = spelling::kLatestReminder;
    if (message.task) marker = task_spelling(*message.task);
    if (!marker.empty() && !tokenizer.find(marker)) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("the model's vocabulary has no token {}", marker));
    }
  }
  DS4_TRY(const auto segments, render(conversation, options));
  return tokenizer.encode_segments(segments);
}

std::string_view task_spelling(Task task) {
  switch (task) {
    case Task::kAction:
      return "<｜action｜>";
    case Task::kQuery:
      return "<｜query｜>";
    case Task::kAuthority:
      return "<｜authority｜>";
    case Task::kDomain:
      return "<｜domain｜>";
    case Task::kTitle:
      return "<｜title｜>";
    case Task::kReadUrl:
      return "<｜read_url｜>";
  }
  return {};
}

}  // namespace ds4
