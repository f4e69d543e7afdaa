#include "eval/trace.h"

#include <fmt/format.h>

#include "eval/text.h"

namespace ds4::eval {
namespace {

void field(std::string& out, std::string_view name, std::string_view value) {
  out += fmt::format("{}: {}\n", name, escape_line(value));
}

void field(std::string& out, std::string_view name, int64_t value) {
  out += fmt::format("{}: {}\n", name, value);
}

void block(std::string& out, std::string_view label, std::string_view text) {
  out += fmt::format("{}_BEGIN bytes={}\n", label, text.size());
  out += text;
  out += fmt::format("\n{}_END\n", label);
}

void sampler_fields(std::string& out, const SamplerOptions& sampler) {
  field(out, "temperature", fmt::format("{}", sampler.temperature));
  field(out, "top_p", fmt::format("{}", sampler.top_p));
  field(out, "min_p", fmt::format("{}", sampler.min_p));
}

// As parse_tools reads them.
std::string tools_text(const std::vector<Tool>& tools) {
  std::string text = "[";
  for (const Tool& tool : tools) {
    if (text.size() > 1) text += ",\n ";
    text += R"({"type": "function", "function": )" + tool.schema + "}";
  }
  return text + "]";
}

void answer_fields(std::string& out, const Outcome& o, const Case& c) {
  field(out, "answer_kind", name_of(o.answer_kind));
  if (o.n_choices > 0) field(out, "choices", o.n_choices);
  char letter = 'A';
  for (const std::string& choice : c.choices) {
    field(out, fmt::format("choice_{}", letter++), choice);
  }
}

}  // namespace

std::string trace_header(const TraceHeader& h) {
  std::string out = "ds4-eval trace 1\n";
  field(out, "started_unix", h.started_unix);
  field(out, "model", h.model);
  field(out, "backend", h.backend);
  field(out, "ctx", h.ctx);
  field(out, "max_tokens", h.answer.max_tokens);
  field(out, "max_prompt_tokens", h.max_prompt_tokens);
  field(out, "questions", h.questions);
  sampler_fields(out, h.answer.sampler);
  field(out, "seed", fmt::format("{}", h.answer.sampler.seed));
  field(out, "think_mode_requested", h.think_mode_requested);
  field(out, "soft_limit_reply_budget", h.answer.soft_budget);
  field(out, "hard_limit_reply_budget", h.answer.hard_budget);
  field(out, "soft_limit_think_close_rank", h.answer.soft_rank);
  field(out, "prompt_version", kPromptVersion);
  return out;
}

std::string trace_case(const Outcome& o, int64_t n_cases, const Case& c, const Prompt& prompt,
                       const SamplerOptions& sampler) {
  std::string out =
      fmt::format("\n===== CASE {}/{} {}/{} =====\n", o.index + 1, n_cases, o.source, o.id);
  field(out, "timestamp_unix", o.finished_unix);
  field(out, "source", o.source);
  field(out, "id", o.id);
  field(out, "domain", o.domain);
  field(out, "title", o.title);
  field(out, "status", name_of(o.status));
  field(out, "picked", o.picked);
  field(out, "expected", o.expected);
  field(out, "prompt_tokens", o.prompt_tokens);
  field(out, "generated_tokens", o.generated_tokens);
  field(out, "elapsed_sec", fmt::format("{:.3f}", o.elapsed_seconds));
  sampler_fields(out, sampler);
  field(out, "think_mode_effective", o.thinking ? "think" : "nothink");
  field(out, "think_close", name_of(o.think_close.kind));
  if (o.think_close.kind != CloseKind::kNone) {
    field(out, "think_close_token", o.think_close.token_index);
    field(out, "think_close_remaining", o.think_close.remaining);
    field(out, "think_close_rank", o.think_close.rank);
  }
  field(out, "finish", o.finish == Finish::kStop ? "stop" : "length");
  if (!o.error.empty()) field(out, "error", o.error);
  answer_fields(out, o, c);
  if (!c.conversation.tools.empty()) block(out, "TOOLS", tools_text(c.conversation.tools));
  block(out, "SYSTEM_PROMPT", prompt.system);
  block(out, "QUESTION_PROMPT", prompt.question);
  block(out, "MODEL_OUTPUT", o.output);
  return out;
}

}  // namespace ds4::eval
