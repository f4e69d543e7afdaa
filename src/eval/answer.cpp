#include "eval/answer.h"

#include <fmt/format.h>

#include "base/check.h"

namespace ds4::eval {
namespace {

// From 1; of equal logits the lower id comes first, as in argmax.
int64_t rank_of(std::span<const float> logits, Token token) {
  const float value = logits[static_cast<size_t>(token)];
  int64_t rank = 1;
  for (size_t i = 0; i < logits.size(); ++i) {
    const bool before = logits[i] > value || (logits[i] == value && static_cast<Token>(i) < token);
    rank += before ? 1 : 0;
  }
  return rank;
}

}  // namespace

Result<void> check_answer_options(const AnswerOptions& options) {
  DS4_TRY_VOID(check_sampler_options(options.sampler));
  if (options.max_tokens < 1) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("tokens: expected 1 or more, found {}", options.max_tokens));
  }
  if (options.hard_budget < 0 || options.soft_budget < 0) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("reply budgets: expected 0 (off) or more, found soft {} and hard {}",
                            options.soft_budget, options.hard_budget));
  }
  if (options.soft_rank < 1) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("close rank: expected 1 or more, found {}", options.soft_rank));
  }
  return {};
}

const char* name_of(CloseKind kind) {
  switch (kind) {
    case CloseKind::kNone:
      return "none";
    case CloseKind::kNatural:
      return "natural";
    case CloseKind::kSoftForced:
      return "soft_forced";
    case CloseKind::kHardForced:
      return "hard_forced";
  }
  return "";
}

AnswerRun::AnswerRun(const Tokenizer& tokenizer, const AnswerOptions& options, ThinkingMode mode,
                     bool watch_tools)
    : tokenizer_(tokenizer),
      options_(options),
      watch_tools_(watch_tools),
      sampler_(options.sampler, tokenizer.size()),
      splitter_(tokenizer.special(), mode) {}

Result<Token> AnswerRun::choose(std::span<const float> logits) {
  // Sampled first, so that logits that are not finite are found and a forced token does not change
  // what the seed gives afterwards.
  DS4_TRY(const Token sampled, sampler_.sample(logits));
  const Token close = tokenizer_.special().think_close;
  if (!thinking()) return sampled;
  CloseKind kind = sampled == close ? CloseKind::kNatural : CloseKind::kNone;
  if (kind == CloseKind::kNone && remaining() <= options_.hard_budget) {
    kind = CloseKind::kHardForced;
  } else if (kind == CloseKind::kNone && remaining() <= options_.soft_budget &&
             rank_of(logits, close) <= options_.soft_rank) {
    kind = CloseKind::kSoftForced;
  }
  if (kind == CloseKind::kNone) return sampled;
  close_ = {kind, generated_, remaining(), rank_of(logits, close)};
  return close;
}

void AnswerRun::take(std::vector<OutputChunk> chunks, Step& step) {
  for (OutputChunk& chunk : chunks) {
    const bool content = chunk.channel == Channel::kContent;
    if (content && watch_tools_) watch_.push(chunk.text);
    (content ? step.content : step.reasoning) += chunk.text;
  }
}

void AnswerRun::end(Finish finish, Step& step) {
  take(splitter_.finish(), step);
  finished_ = true;
  finish_ = finish;
  step.token.reset();
}

Result<AnswerRun::Step> AnswerRun::next(std::span<const float> logits) {
  DS4_CHECK(!finished_);
  const auto chosen = choose(logits);
  if (!chosen) {
    finished_ = true;
    return tl::unexpected(chosen.error());
  }
  Step step;
  if (tokenizer_.special().ends_turn(*chosen)) {
    end(Finish::kStop, step);
    return step;
  }
  step.token = *chosen;
  step.said = true;
  ++generated_;
  raw_ += tokenizer_.bytes_of(*chosen);
  take(splitter_.push(*chosen, tokenizer_.bytes_of(*chosen)), step);
  if (watch_.closed()) {
    end(Finish::kStop, step);
  } else if (generated_ == options_.max_tokens) {
    end(Finish::kLength, step);
  }
  return step;
}

}  // namespace ds4::eval
