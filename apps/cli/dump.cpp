#include "dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/file_writer.h"
#include "engine/log_softmax.h"
#include "engine/scorer.h"
#include "input.h"
#include "json_pieces.h"
#include "memory.h"
#include "signals.h"
#include "turn.h"

namespace ds4::cli {
namespace {

Result<void> write_text(FileWriter& file, std::string_view text) {
  return file.write(std::as_bytes(std::span(text)));
}

// The k largest logits, the lowest id first among equals.
std::vector<Token> top_tokens(std::span<const float> logits, int64_t k) {
  std::vector<Token> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto n = std::min(static_cast<std::ptrdiff_t>(k), std::ssize(order));
  const auto logit = [&](Token t) { return logits[static_cast<size_t>(t)]; };
  std::partial_sort(order.begin(), order.begin() + n, order.end(), [&](Token a, Token b) {
    return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
  });
  order.resize(static_cast<size_t>(n));
  return order;
}

std::string step_json(const Tokenizer& tokenizer, int64_t step, Token selected,
                      std::span<const float> logits, int64_t top_k) {
  const LogSoftmax probabilities(logits);
  std::string top;
  for (const Token token : top_tokens(logits, top_k)) {
    const float logit = logits[static_cast<size_t>(token)];
    top += fmt::format("{}{{\"token\":{{{}}},\"logit\":{},\"logprob\":{}}}", top.empty() ? "" : ",",
                       json_token(tokenizer, token), json_number(logit),
                       json_number(probabilities.of(logit)));
  }
  return fmt::format("{{\"step\":{},\"selected\":{{{}}},\"top_logprobs\":[{}]}}", step,
                     json_token(tokenizer, selected), top);
}

}  // namespace

int64_t score_chunk_tokens(const Options& options) {
  return std::min<int64_t>(options.prefill_chunk_tokens, 512);
}

Result<int> dump_logprobs(Session& session, const Tokenizer& tokenizer,
                          std::span<const Token> prompt, const Options& options) {
  DS4_TRY(FileWriter file, FileWriter::create(options.dump_logprobs, /*overwrite=*/true));
  DS4_TRY_VOID(write_text(
      file, fmt::format("{{\"source\":\"ds4\",\"prompt_tokens\":{},\"ctx\":{},\"top_k\":{},"
                        "\"steps\":[",
                        prompt.size(), session.ctx_tokens(), options.logprobs_top_k)));
  Result<void> written;
  int64_t step = 0;
  TurnHooks hooks{.screen = options.screen};
  hooks.on_token = [&](Token token, std::span<const float> logits) {
    if (!written) return;
    const char* separator = step == 0 ? "\n" : ",\n";
    written = write_text(
        file, separator + step_json(tokenizer, step, token, logits, options.logprobs_top_k));
    ++step;
  };
  Sampler greedy({.temperature = 0}, tokenizer.size());
  DS4_TRY(const TurnReport report,
          run_turn(session, tokenizer, greedy, {.prompt = prompt, .max_tokens = options.max_tokens},
                   hooks));
  DS4_TRY_VOID(std::move(written));
  DS4_TRY_VOID(write_text(file, "\n]}\n"));
  DS4_TRY_VOID(file.commit());
  return interrupted() ? kExitInterrupted : 0;
}

Result<int> dump_logits(Session& session, const Tokenizer& tokenizer, std::span<const Token> prompt,
                        const Options& options) {
  DS4_TRY(FileWriter file, FileWriter::create(options.dump_logits, /*overwrite=*/true));
  Sampler unused({.temperature = 0}, tokenizer.size());
  DS4_TRY(const TurnReport report,
          run_turn(session, tokenizer, unused, {.prompt = prompt, .max_tokens = 0},
                   {.screen = options.screen}));
  if (report.ended == Ended::kInterruptedPrompt) return kExitInterrupted;
  std::string text =
      fmt::format("{{\"source\":\"ds4\",\"prompt_tokens\":{},\"ctx\":{},\"logits\":[",
                  report.prompt_tokens, session.ctx_tokens());
  const char* separator = "";
  for (const float logit : session.logits()) {
    text += separator;
    text += json_number(logit);
    separator = ",";
  }
  DS4_TRY_VOID(write_text(file, text + "]}\n"));
  DS4_TRY_VOID(file.commit());
  return 0;
}

Result<int> print_perplexity(Model model, const Tokenizer& tokenizer, const Options& options) {
  DS4_TRY(const std::string text, read_input(options.perplexity_file));
  std::vector<Token> tokens = tokenizer.encode_text(text);
  tokens.insert(tokens.begin(), tokenizer.special().bos);
  const int64_t n = static_cast<int64_t>(tokens.size());
  if (n <= kContextTokens) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: expected more than {} tokens (the first {} are context only), "
                            "found {}",
                            options.perplexity_file, kContextTokens, kContextTokens, n));
  }
  DS4_TRY_VOID(check_memory_plan(model, options, 0));
  DS4_TRY(const auto scorer,
          Scorer::create(std::move(model), {.backend = options.backend,
                                            .n_threads = options.n_threads,
                                            .pin_threads = options.pin_threads,
                                            .precision = options.precision,
                                            .ctx_tokens = options.ctx_tokens,
                                            .chunk_tokens = score_chunk_tokens(options)}));
  enter_phase(Phase::kWorking);
  PrefillProgress progress(options.screen, "scoring");
  const auto scored = scorer->score(tokens, [&](int64_t done, int64_t total) {
    progress.update(done, total);
    return !interrupted();
  });
  progress.clear();
  if (!scored && scored.error().code == ErrorCode::kCancelled) return kExitInterrupted;
  if (!scored) return tl::unexpected(scored.error());
  // Value i belongs to token i + 1.
  const auto counted = std::span(*scored).subspan(static_cast<size_t>(kContextTokens - 1));
  const double nll = -std::accumulate(counted.begin(), counted.end(), 0.0);
  const double average = nll / static_cast<double>(counted.size());
  fmt::print("tokens={} scored={} nll={:.6f} avg_nll={:.9f} ppl={:.6f}\n", n, counted.size(), nll,
             average, std::exp(average));
  return 0;
}

void dump_tokens(const Tokenizer& tokenizer, const std::string& prompt) {
  for (const Token token : tokenizer.encode_rendered(prompt)) {
    std::string piece;
    for (const char c : tokenizer.bytes_of(token)) {
      const unsigned char byte = static_cast<unsigned char>(c);
      if (byte == '\\') {
        piece += "\\\\";
      } else if (byte == '\n') {
        piece += "\\n";
      } else if (byte < 0x20 || byte == 0x7f) {
        piece += fmt::format("\\x{:02x}", byte);
      } else {
        piece += c;
      }
    }
    fmt::print("{:>6} '{}'\n", token, piece);
  }
}

}  // namespace ds4::cli
