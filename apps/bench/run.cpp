// A run: model, text, sessions; rows as they are measured, reports at the end.
#include "run.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/byte_size.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "chart.h"
#include "chat/render.h"
#include "common/signals.h"
#include "engine/engine.h"
#include "engine/kv_cache.h"
#include "facts.h"
#include "output.h"
#include "sweep.h"
#include "tokenizer/tokenizer.h"

namespace ds4::bench {
namespace {

using Json = nlohmann::ordered_json;

Result<std::vector<Token>> read_prompt(const Model& model, const Tokenizer& tokenizer,
                                       const Options& o) {
  const bool chat = o.prompt_file.empty();
  DS4_TRY(const MappedFile file, MappedFile::open(chat ? o.chat_prompt_file : o.prompt_file));
  if (std::ssize(file.bytes()) > Tokenizer::kTextBytesMax) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: expected a text of at most {} bytes, found {}", file.path(),
                            Tokenizer::kTextBytesMax, file.bytes().size()));
  }
  const std::string text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  if (!chat) {
    std::vector<Token> tokens = tokenizer.encode_text(text);
    tokens.insert(tokens.begin(), tokenizer.special().bos);
    return tokens;
  }
  Conversation conversation;
  if (!o.system.empty()) {
    conversation.messages.push_back({.role = Role::kSystem, .content = o.system});
  }
  conversation.messages.push_back({.role = Role::kUser, .content = text});
  const std::string metadata = model.effort_profile().value_or("");
  const std::string name = model.general_name();
  DS4_TRY(const EffortProfile profile,
          select_effort_profile("auto", {.metadata = metadata, .model_name = name}));
  return render_tokens(conversation,
                       {.thinking = {ThinkingMode::kChat, Effort::kLow}, .profile = profile},
                       tokenizer);
}

Result<void> check_length(const Options& o, int64_t found) {
  const int64_t more = (o.batch - 1) * o.batch_offset;
  if (found >= o.ctx_max + more) return {};
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("{}: expected at least {} tokens (--ctx-max{}), found {}",
                  o.prompt_file.empty() ? o.chat_prompt_file : o.prompt_file, o.ctx_max + more,
                  more > 0 ? fmt::format(" {} and {} of --batch-offset", o.ctx_max, more) : "",
                  found));
}

Result<void> check_folder(const std::string& path) {
  if (path.empty()) return {};
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) {
    return fail(ErrorCode::kNotFound, fmt::format("{}: {}", path, std::strerror(errno)));
  }
  if (!S_ISDIR(info.st_mode)) {
    return fail(ErrorCode::kInvalidArgument, path + ": expected a folder");
  }
  return {};
}

// Touches every page of the model file, so that no measurement waits for a disk. False when
// interrupted.
bool warm_weights(const Model& model, const Options& o) {
  const gguf::TensorInfo& first = model.file().tensors().front();
  const auto* bytes = reinterpret_cast<const volatile char*>(first.data - first.offset);
  const int64_t size = model.file().file_bytes();
  app::PrefillProgress progress(o.screen, "reading the weights, MiB");
  for (int64_t at = 0; at < size; at += 4096) {
    (void)bytes[at];
    if (at % (int64_t{64} << 20) != 0) continue;
    if (app::interrupted()) return false;
    progress.update(at >> 20, size >> 20);
  }
  progress.clear();
  return true;
}

MemoryPlanInput plan_input(const Model& model, const Options& o) {
  // Two points in time that are gone back to; the other sessions have one. Their pages are the
  // sessions' own.
  const ModelConfig& config = model.config();
  const int64_t point_bytes =
      KvCache::bytes_needed(config, config.compress_ratios, kv_storage(o.backend, o.precision), 1);
  MemoryPlanInput input = app::plan_input(model, o);
  input.max_sessions = input.n_sessions = o.batch;
  input.ctx_tokens = o.ctx_alloc;
  input.snapshot_bytes = (o.batch + 1) * point_bytes;
  return input;
}

Result<std::unique_ptr<Engine>> make_engine(Model model, const Options& o) {
  auto planned =
      app::check_memory_plan(model.config(), plan_input(model, o), o.mem_limit, false, o.verbose);
  if (!planned) {
    // The plan speaks of ds4's flag.
    planned.error().message += "; the context is --ctx-alloc here";
    return tl::unexpected(std::move(planned.error()));
  }
  EngineOptions options = app::engine_options(o, *planned);
  options.max_sessions = o.batch;
  options.snapshots.bytes_max = 0;
  DS4_TRY(auto engine, Engine::create(std::move(model), options));
  const int64_t kv_bytes = Session::bytes_needed(*engine, {.ctx_tokens = o.ctx_alloc});
  app::print_error(without_controls(fmt::format(
      "ds4-bench: {} on {}: {}, context {} tokens{} in {}\n", engine->model().general_name(),
      backend_name(o.backend), engine->device().description(), o.ctx_alloc,
      o.batch > 1 ? fmt::format(" x {} sessions", o.batch) : "",
      format_byte_size(kv_bytes * o.batch))));
  return engine;
}

// The line on standard error that shows work in progress. Looked at some times a second, since it
// runs inside what is timed.
class Progress {
 public:
  explicit Progress(const app::Screen& screen) : screen_(screen) {}
  void update(const char* doing, int64_t done, int64_t total) {
    if (doing != doing_ || done == 0) {
      clear();
      doing_ = doing;
      line_.emplace(screen_, doing);
      last_ = std::chrono::steady_clock::now();
    }
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::milliseconds(250)) return;
    last_ = now;
    line_->update(done, total);
  }
  void clear() {
    if (line_) line_->clear();
    line_.reset();
    doing_ = nullptr;
  }

 private:
  const app::Screen screen_;
  const char* doing_ = nullptr;
  std::optional<app::PrefillProgress> line_;
  std::chrono::steady_clock::time_point last_;
};

// Where results go; all of it is opened before the first measurement.
struct Outputs {
  OutputFile csv;
  std::optional<OutputFile> json, plot;

  static Result<Outputs> open(const Options& o) {
    DS4_TRY_VOID(check_folder(o.logits_dir));
    DS4_TRY(OutputFile csv, OutputFile::open(o.csv));
    Outputs outputs{std::move(csv), std::nullopt, std::nullopt};
    if (!o.json.empty()) {
      DS4_TRY(outputs.json, OutputFile::open(o.json));
    }
    if (!o.plot.empty()) {
      DS4_TRY(outputs.plot, OutputFile::open(o.plot));
    }
    return outputs;
  }
};

// All frontiers; rows that were measured stay in `rows` whatever happens.
Result<void> measure(Engine& engine, std::span<const Token> prompt, const Options& o, Token eos,
                     OutputFile& csv, std::vector<Row>& rows) {
  Progress progress(o.screen);
  SweepHooks hooks;
  hooks.interrupted = app::interrupted;
  hooks.progress = [&](const char* doing, int64_t done, int64_t total) {
    progress.update(doing, done, total);
  };
  if (!o.logits_dir.empty()) {
    hooks.on_frontier = [&](const Session& session, int64_t prefill_tokens) {
      return write_logits(o.logits_dir,
                          {.model = engine.model().file().path(),
                           .backend = std::string(backend_name(o.backend)),
                           .quality = o.quality,
                           .quant_bits = engine.model().routed_bits(),
                           .frontier = std::ssize(session.tokens()),
                           .prefill_tokens = prefill_tokens,
                           .ctx = o.ctx_alloc},
                          session.logits());
    };
  }
  DS4_TRY(Sweep sweep, Sweep::create(engine, prompt,
                                     {.ctx_alloc = o.ctx_alloc,
                                      .gen_tokens = o.gen_tokens,
                                      .repeat = o.repeat,
                                      .batch = o.batch,
                                      .batch_offset = o.batch_offset,
                                      .eos = eos},
                                     std::move(hooks)));
  auto done = sweep.warm_up(std::min(o.ctx_start, o.prefill_chunk_tokens));
  for (const int64_t frontier : frontiers(o.ctx_start, o.ctx_max, o.step_mul, o.step_incr)) {
    if (!done) break;
    auto row = sweep.measure(frontier);
    progress.clear();
    if (row) {
      rows.push_back(*row);
      done = csv.write(csv_row(*row, o.extended) + "\n");
    } else {
      done = tl::unexpected(std::move(row.error()));
    }
  }
  progress.clear();
  return done;
}

std::string chart_subtitle(const Options& o, Engine& engine) {
  std::string text(engine.device().description());
  if (o.repeat > 1) text += fmt::format("; median of {}", o.repeat);
  if (o.batch > 1) text += fmt::format("; {} sessions together", o.batch);
  if (o.gen_tokens > 0) text += fmt::format("; {} tokens answered", o.gen_tokens);
  return text;
}

}  // namespace

Result<int> run_sweep(const Options& o) {
  DS4_TRY(Model model, Model::open(o.model, {.allow_slice = o.allow_slice}));
  DS4_TRY(const Tokenizer tokenizer, Tokenizer::create(model.vocab()));
  DS4_TRY(const std::vector<Token> prompt, read_prompt(model, tokenizer, o));
  DS4_TRY_VOID(check_length(o, std::ssize(prompt)));
  DS4_TRY(Outputs outputs, Outputs::open(o));
  app::enter_phase(app::Phase::kWorking);
  DS4_TRY(const std::unique_ptr<Engine> engine, make_engine(std::move(model), o));
  if (o.warm_weights && !warm_weights(engine->model(), o)) return app::kExitInterrupted;
  const Json facts = run_facts(o, *engine, std::ssize(prompt));

  std::string head = csv_header(o.extended) + "\n";
  if (o.extended) {
    head.insert(0, "# " + facts.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  DS4_TRY_VOID(outputs.csv.write(head));
  std::vector<Row> rows;
  const auto done = measure(*engine, prompt, o, tokenizer.special().eos, outputs.csv, rows);
  // What was measured before an error or Ctrl-C counts all the same.
  if (outputs.json) DS4_TRY_VOID(outputs.json->write(json_report(facts, rows, done.has_value())));
  if (outputs.plot) {
    DS4_TRY_VOID(outputs.plot->write(
        rate_chart(engine->model().general_name(), chart_subtitle(o, *engine), rows)));
  }
  if (!done && done.error().code == ErrorCode::kCancelled && app::interrupted()) {
    app::print_error(fmt::format("ds4-bench: interrupted after {} rows\n", rows.size()));
    return app::kExitInterrupted;
  }
  if (!done) return tl::unexpected(done.error());
  return 0;
}

}  // namespace ds4::bench
