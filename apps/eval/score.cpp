// Teacher forcing: texts, against a reference model if there is one, and official continuations.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/signals.h"
#include "engine/scorer.h"
#include "eval/continuation.h"
#include "eval/text_score.h"
#include "program.h"
#include "quantizer/calibration_text.h"
#include "tokenizer/utf8.h"

namespace ds4::evaluate {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kTextCtx = 4096;
constexpr int64_t kLogitBytes = int64_t{64} << 20;  // of a chunk's rows

// Rows of a step: as many as prefill takes, but no more logits than kLogitBytes.
int64_t chunk_rows(const Options& options, const ModelConfig& config) {
  const int64_t rows = kLogitBytes / (config.vocab_size * int64_t{sizeof(float)});
  return std::clamp<int64_t>(rows, 1, options.prefill_chunk_tokens);
}

MemoryPlanInput plan_input(const Options& options, const Model& model, int64_t ctx_tokens) {
  const int64_t chunk = chunk_rows(options, model.config());
  MemoryPlanInput input = app::plan_input(model, options);
  input.prefill_chunk_tokens = input.max_sessions = chunk;  // each row has logits
  input.ctx_tokens = ctx_tokens;
  input.repack_bytes = 0;  // a Scorer makes no copies
  return input;
}

Result<std::unique_ptr<Scorer>> make_scorer(const Options& options, Model model,
                                            int64_t ctx_tokens) {
  const int64_t chunk = chunk_rows(options, model.config());
  return Scorer::create(std::move(model), {.backend = options.backend,
                                           .n_threads = options.n_threads,
                                           .pin_threads = options.pin_threads,
                                           .precision = options.precision,
                                           .ctx_tokens = ctx_tokens,
                                           .chunk_tokens = chunk});
}

// Two models share the memory: the second's total counts as taken by the first.
Result<void> check_two_models(const Options& options, const Model& model, const Model& reference,
                              int64_t ctx_tokens) {
  DS4_TRY(const MemoryPlan beside,
          MemoryPlan::make(reference.config(), plan_input(options, reference, ctx_tokens)));
  MemoryPlanInput input = plan_input(options, model, ctx_tokens);
  input.weight_bytes += beside.total();
  input.weight_bytes += kLogitBytes;  // the reference's rows are kept for comparison
  DS4_TRY_VOID(
      app::check_memory_plan(model.config(), input, options.mem_limit, false, options.verbose));
  return {};
}

Result<void> check_same_vocabulary(const Model& model, const Tokenizer& tokenizer,
                                   const Model& reference) {
  DS4_TRY(const Tokenizer other, Tokenizer::create(reference.vocab()));
  const bool same = other.fingerprints().tokens == tokenizer.fingerprints().tokens &&
                    other.fingerprints().merges == tokenizer.fingerprints().merges;
  if (same) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{} and {}: expected the same vocabulary, found two different ones",
                          model.file().path(), reference.file().path()));
}

using Windows = std::vector<std::vector<Token>>;

// The chats of --chats, each by itself: control strings in them count.
Result<Windows> chat_windows(const Options& options, const Tokenizer& tokenizer) {
  DS4_TRY(const std::string text, read_file(options.chats));
  Windows windows;
  for (const std::string_view chat : split_calibration_text(text)) {
    windows.push_back(tokenizer.encode_rendered(chat));
  }
  return windows;
}

// The text of --text, in windows of `ctx` with a BOS in front of each.
Result<Windows> text_windows(const Options& options, const Tokenizer& tokenizer, int64_t ctx) {
  DS4_TRY(const std::string text, read_file(options.text));
  if (utf8_repair(text)) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("{}: expected UTF-8, found other bytes", options.text));
  }
  const std::vector<Token> tokens = tokenizer.encode_text(text);
  if (tokens.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: expected text, found none", options.text));
  }
  return eval::text_windows(tokens, tokenizer.special().bos, ctx);
}

// What is to be predicted: of at most --text-tokens tokens.
Result<Windows> windows_of(const Options& options, const Tokenizer& tokenizer, int64_t ctx) {
  DS4_TRY(Windows windows, options.chats.empty() ? text_windows(options, tokenizer, ctx)
                                                 : chat_windows(options, tokenizer));
  if (options.text_tokens == 0) return windows;
  int64_t left = options.text_tokens;
  for (auto& window : windows) {
    const int64_t n = std::min(left, std::max<int64_t>(0, std::ssize(window) - 1));
    if (!window.empty()) window.resize(static_cast<size_t>(n + 1));
    left -= n;
  }
  return windows;
}

// Tokens that will be predicted in contexts of `ctx`, and the longest window.
struct WindowSize {
  int64_t n_tokens = 0;
  int64_t longest = 0;
};
WindowSize size_of(const Windows& windows, int64_t ctx) {
  WindowSize size;
  for (const auto& window : windows) {
    const int64_t n = std::min(ctx, std::ssize(window));
    size.n_tokens += std::max<int64_t>(0, n - 1);
    size.longest = std::max(size.longest, n);
  }
  return size;
}

double mean(double sum, int64_t n) { return n == 0 ? 0 : sum / static_cast<double>(n); }

std::string text_report(const eval::TextScore& score, int64_t n_tokens) {
  const int64_t n = score.n_tokens();
  const double nll = mean(score.nll(), n);
  std::string out = fmt::format(
      "tokens          {}{}\nnll             {:.6f} per token, perplexity {:.4f}\n"
      "top-1           {:.2f} % of the text's tokens\n",
      n, n < n_tokens ? fmt::format(" of {} (interrupted)", n_tokens) : "", nll, std::exp(nll),
      100 * mean(static_cast<double>(score.top1_hits()), n));
  if (!score.has_reference()) return out;
  const double reference = mean(score.reference_nll(), n);
  const eval::TextScore::Kl kl = score.kl();
  return out +
         fmt::format(
             "reference nll   {:.6f} per token, perplexity {:.4f}; this one {:+.6f}\n"
             "KL              mean {:.3e}, median {:.3e}, 99 % {:.3e}, max {:.3e} (token {})\n"
             "same top-1      {:.2f} % ({} of {})\n",
             reference, std::exp(reference), nll - reference, kl.mean, kl.median, kl.p99, kl.max,
             kl.max_at, 100 * mean(static_cast<double>(score.same_top1()), n), score.same_top1(),
             n);
}

std::string text_json(eval::ReportFacts facts, const eval::TextScore& score, int64_t n_tokens) {
  Json out;
  out["format"] = "ds4-eval text 1";
  for (auto& [name, value] : facts) out[name] = std::move(value);
  const int64_t n = score.n_tokens();
  const double nll = mean(score.nll(), n);
  out["complete"] = n == n_tokens;
  out["tokens"] = n;
  out["nll_mean"] = nll;
  out["perplexity"] = std::exp(nll);
  out["top1_hits"] = score.top1_hits();
  if (score.has_reference()) {
    const eval::TextScore::Kl kl = score.kl();
    out["reference_nll_mean"] = mean(score.reference_nll(), n);
    out["reference_perplexity"] = std::exp(mean(score.reference_nll(), n));
    out["kl"] = {{"mean", kl.mean},
                 {"median", kl.median},
                 {"p99", kl.p99},
                 {"max", kl.max},
                 {"max_at_token", kl.max_at}};
    out["same_top1"] = score.same_top1();
  }
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

Result<int> score_text(const Options& options) {
  DS4_TRY(Model model, Model::open(options.model));
  DS4_TRY(const Tokenizer tokenizer, Tokenizer::create(model.vocab()));
  const int64_t wanted = options.ctx_tokens > 0 ? options.ctx_tokens : kTextCtx;
  DS4_TRY(const Windows windows, windows_of(options, tokenizer, wanted));
  const WindowSize size = size_of(windows, wanted);
  const int64_t ctx = std::clamp<int64_t>(size.longest, 2, wanted);
  eval::ReportFacts facts;
  add_engine_facts(facts, options);
  add_model_facts(facts, "model", model);
  std::unique_ptr<Scorer> reference;
  if (!options.reference.empty()) {
    DS4_TRY(Model other, Model::open(options.reference));
    DS4_TRY_VOID(check_same_vocabulary(model, tokenizer, other));
    DS4_TRY_VOID(check_two_models(options, model, other, ctx));
    add_model_facts(facts, "reference", other);
    DS4_TRY(reference, make_scorer(options, std::move(other), ctx));
  } else {
    DS4_TRY_VOID(app::check_memory_plan(model.config(), plan_input(options, model, ctx),
                                        options.mem_limit, false, options.verbose));
  }
  DS4_TRY(const std::unique_ptr<Scorer> scorer, make_scorer(options, std::move(model), ctx));
  facts.emplace_back("ctx", ctx);
  app::enter_phase(app::Phase::kWorking);
  app::PrefillProgress progress(options.screen, "scoring");
  const auto score =
      eval::score_windows(*scorer, reference.get(), windows, ctx, [&](int64_t done, int64_t total) {
        progress.update(done, total);
        return !app::interrupted();
      });
  progress.clear();
  if (!score) return tl::unexpected(score.error());
  DS4_TRY_VOID(print(text_report(*score, size.n_tokens)));
  if (!options.json.empty()) {
    DS4_TRY_VOID(write_file(options.json, text_json(std::move(facts), *score, size.n_tokens)));
  }
  return app::interrupted() ? app::kExitInterrupted : 0;
}

Result<int> score_continuations(const Options& options) {
  DS4_TRY(const std::vector<eval::Continuation> entries,
          eval::load_continuations(options.continuations));
  DS4_TRY(Model model, Model::open(options.model));
  DS4_TRY(const Tokenizer tokenizer, Tokenizer::create(model.vocab()));
  std::vector<eval::ContinuationTokens> prompts;
  int64_t ctx = 2;
  for (const eval::Continuation& entry : entries) {
    DS4_TRY(prompts.emplace_back(), eval::continuation_tokens(entry, tokenizer));
    ctx = std::max<int64_t>(ctx, std::ssize(prompts.back().tokens));
  }
  DS4_TRY_VOID(app::check_memory_plan(model.config(), plan_input(options, model, ctx),
                                      options.mem_limit, false, options.verbose));
  DS4_TRY(const std::unique_ptr<Scorer> scorer, make_scorer(options, std::move(model), ctx));
  app::enter_phase(app::Phase::kWorking);
  std::vector<eval::ContinuationScore> scores;
  for (size_t i = 0; i < entries.size() && !app::interrupted(); ++i) {
    DS4_TRY(scores.emplace_back(), eval::score_continuation(*scorer, entries[i].id, prompts[i]));
    DS4_TRY_VOID(print(eval::score_line(scores.back())));
  }
  DS4_TRY_VOID(print(eval::summary_text(eval::summarize(scores))));
  if (app::interrupted()) return app::kExitInterrupted;  // half of the scores compare with nothing
  if (!options.scores.empty()) {
    DS4_TRY_VOID(write_file(options.scores, eval::scores_text(scores)));
  }
  return 0;
}

}  // namespace ds4::evaluate
