#include "trace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "ds4_version.h"
#include "engine/log_softmax.h"
#include "json_pieces.h"

namespace ds4::cli {
namespace {

std::string json_bool(bool value) { return value ? "true" : "false"; }

std::string thinking_members(const Thinking& thinking) {
  const char* const efforts[] = {"low", "high", "max"};
  return fmt::format("\"thinking\":{},\"effort\":\"{}\"",
                     json_bool(thinking.mode == ThinkingMode::kThinking),
                     efforts[static_cast<int>(thinking.effort)]);
}

std::string sampler_members(const SamplerOptions& s) {
  return fmt::format("\"temperature\":{},\"top_k\":{},\"top_p\":{},\"min_p\":{},\"seed\":{}",
                     json_number(s.temperature), s.top_k, json_number(s.top_p),
                     json_number(s.min_p), s.seed);
}

}  // namespace

Result<Trace> Trace::create(const std::string& path) {
  if (path.empty()) return Trace(File(nullptr, std::fclose));
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  FILE* file = fd < 0 ? nullptr : ::fdopen(fd, "w");
  if (file == nullptr) {
    return fail(ErrorCode::kIo, fmt::format("{}: cannot open: {}", path, std::strerror(errno)));
  }
  return Trace(File(file, std::fclose));
}

// A trace that cannot be written (a full disk) is given up with one warning: the answer matters
// more.
void Trace::write(std::string_view event, std::string_view members) {
  if (file_ == nullptr || failed_) return;
  const std::string line =
      fmt::format("{{\"t\":{:.6f},\"event\":\"{}\"{}{}}}\n", seconds_since(start_), event,
                  members.empty() ? "" : ",", members);
  if (std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size() ||
      std::fflush(file_.get()) != 0) {
    failed_ = true;
    print_error(
        fmt::format("ds4: --trace: cannot write, no more is traced: {}\n", std::strerror(errno)));
  }
}

void Trace::start(const Options& o) {
  if (file_ == nullptr) return;
  write("start",
        fmt::format("\"version\":{},\"commit\":{},\"model\":{},\"ctx\":{},\"max_tokens\":{},"
                    "\"backend\":\"{}\",\"threads\":{},\"prefill_chunk\":{},\"raw_prompt\":{},"
                    "\"system\":{},{},{}",
                    json_string(kVersion), json_string(kCommit), json_string(o.model), o.ctx_tokens,
                    o.max_tokens, backend_name(o.backend), o.n_threads, o.prefill_chunk_tokens,
                    json_bool(o.raw_prompt), json_string(o.system), thinking_members(o.thinking),
                    sampler_members(o.sampler)));
}

void Trace::model(const Engine& engine, const Options& o) {
  if (file_ == nullptr) return;
  const Model& model = engine.model();
  write("model",
        fmt::format(
            "\"name\":{},\"bytes\":{},\"tensors\":{},\"kv_bytes\":{},\"workspace_bytes\":{}",
            json_string(model.general_name()), model.file().file_bytes(),
            model.file().tensors().size(),
            Session::bytes_needed(engine, {.ctx_tokens = o.ctx_tokens}), engine.workspace_bytes()));
}

void Trace::prompt(std::span<const Token> tokens, const Thinking& thinking) {
  if (file_ == nullptr) return;
  write("prompt", fmt::format("{},\"n\":{},\"ids\":{}", thinking_members(thinking), tokens.size(),
                              json_ids(tokens)));
}

void Trace::sync(const TurnReport& r) {
  if (file_ == nullptr) return;
  write("sync", fmt::format("\"reused\":{},\"evaluated\":{},\"seconds\":{:.6f}",
                            r.sync.reused_tokens, r.sync.evaluated_tokens, r.prompt_seconds));
}

void Trace::token(const Tokenizer& tokenizer, Token token, std::span<const float> logits) {
  if (file_ == nullptr) return;
  const float logit = logits[static_cast<size_t>(token)];
  write("token", fmt::format("{},\"logit\":{},\"logprob\":{}", json_token(tokenizer, token),
                             json_number(logit), json_number(LogSoftmax(logits).of(logit))));
}

void Trace::turn(const TurnReport& r) {
  if (file_ == nullptr) return;
  write("turn", fmt::format("\"ended\":\"{}\",\"prompt_tokens\":{},\"answer_tokens\":{},"
                            "\"prompt_seconds\":{:.6f},\"answer_seconds\":{:.6f}",
                            name_of(r.ended), r.prompt_tokens, r.answer_tokens, r.prompt_seconds,
                            r.answer_seconds));
}

void Trace::command(std::string_view line) {
  if (file_ == nullptr) return;
  write("command", fmt::format("\"line\":{}", json_string(line)));
}

void Trace::error(const Error& error) {
  if (file_ == nullptr) return;
  write("error", fmt::format("\"code\":{},\"message\":{}", static_cast<int>(error.code),
                             json_string(error.message)));
}

void Trace::attach(TurnHooks& hooks, const Tokenizer& tokenizer) {
  if (file_ == nullptr) return;
  hooks.on_prompt = [this](const TurnReport& report) { sync(report); };
  hooks.on_token = [this, &tokenizer](Token t, std::span<const float> logits) {
    token(tokenizer, t, logits);
  };
}

}  // namespace ds4::cli
