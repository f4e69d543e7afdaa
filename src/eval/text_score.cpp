#include "eval/text_score.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "engine/log_softmax.h"
#include "engine/sampler.h"

namespace ds4::eval {
namespace {

Result<double> log_probability(std::span<const float> logits, const LogSoftmax& log_softmax,
                               Token token) {
  if (token < 0 || token >= std::ssize(logits)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("token {}: expected 0 .. {}", token, logits.size() - 1));
  }
  const double value = log_softmax.of(logits[static_cast<size_t>(token)]);
  if (!std::isfinite(value)) {
    return fail(ErrorCode::kNonFinite, "the logits before a token are not finite");
  }
  return value;
}

double divergence(std::span<const float> reference, const LogSoftmax& of_reference,
                  std::span<const float> logits, const LogSoftmax& of_logits) {
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double log_p = of_reference.of(reference[i]);
    sum += std::exp(log_p) * (log_p - of_logits.of(logits[i]));
  }
  return sum;
}

// One window: its tokens with the BOS in front, and what comes in chunks.
class Window {
 public:
  Window(Scorer& model, Scorer* reference, std::span<const Token> tokens, TextScore& score)
      : model_(model), reference_(reference), tokens_(tokens), score_(score) {
    model_.restart();
    if (reference_ != nullptr) reference_->restart();
  }

  // The tokens from `begin` on are evaluated, and those one later predicted.
  Result<void> chunk(size_t begin, size_t n) {
    kept_.clear();
    if (reference_ != nullptr) {
      DS4_TRY_VOID(reference_->advance(tokens_.subspan(begin, n),
                                       [&](int64_t, std::span<const float> row) -> Result<void> {
                                         kept_.insert(kept_.end(), row.begin(), row.end());
                                         return {};
                                       }));
    }
    return model_.advance(
        tokens_.subspan(begin, n), [&](int64_t place, std::span<const float> row) {
          const Token next = tokens_[static_cast<size_t>(place) + 1];
          return score_.add(row, next, kept_row(static_cast<size_t>(place) - begin, row.size()));
        });
  }

 private:
  std::span<const float> kept_row(size_t i, size_t vocab_size) const {
    if (reference_ == nullptr) return {};
    return std::span(kept_).subspan(i * vocab_size, vocab_size);
  }

  Scorer& model_;
  Scorer* const reference_;
  const std::span<const Token> tokens_;
  TextScore& score_;
  std::vector<float> kept_;
};

}  // namespace

Result<void> TextScore::add(std::span<const float> logits, Token next,
                            std::span<const float> reference) {
  DS4_CHECK(reference.empty() || reference.size() == logits.size());
  DS4_CHECK(reference.empty() || std::ssize(kl_) == n_tokens_);
  const LogSoftmax log_softmax(logits);
  DS4_TRY(const double value, log_probability(logits, log_softmax, next));
  const Token best = argmax(logits);
  if (!reference.empty()) {
    const LogSoftmax of_reference(reference);
    DS4_TRY(const double wanted, log_probability(reference, of_reference, next));
    const double kl = divergence(reference, of_reference, logits, log_softmax);
    if (!std::isfinite(kl)) {
      return fail(ErrorCode::kNonFinite, "the logits before a token are not finite");
    }
    kl_.push_back(kl);
    reference_nll_ -= wanted;
    same_top1_ += argmax(reference) == best;
  }
  nll_ -= value;
  top1_hits_ += best == next;
  ++n_tokens_;
  return {};
}

TextScore::Kl TextScore::kl() const {
  Kl out;
  if (kl_.empty()) return out;
  std::vector<double> sorted = kl_;
  std::ranges::sort(sorted);
  const auto quantile = [&](double q) {
    const double rank = std::ceil(q * static_cast<double>(sorted.size()));
    return sorted[static_cast<size_t>(std::max(rank, 1.0)) - 1];
  };
  for (const double value : kl_) out.mean += value;
  out.mean /= static_cast<double>(kl_.size());
  out.median = quantile(0.5);
  out.p99 = quantile(0.99);
  out.max = sorted.back();
  out.max_at = std::ranges::max_element(kl_) - kl_.begin();
  return out;
}

Result<TextScore> score_windows(Scorer& model, Scorer* reference,
                                std::span<const std::vector<Token>> windows, int64_t ctx_tokens,
                                const TextProgress& progress) {
  if (ctx_tokens < 2) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("context: expected at least 2 tokens, found {}", ctx_tokens));
  }
  // Of a window: what fits; its first token is not predicted.
  const auto used = [&](const std::vector<Token>& window) {
    return std::span(window).first(std::min(window.size(), static_cast<size_t>(ctx_tokens)));
  };
  int64_t total = 0;
  for (const auto& window : windows) {
    total += std::max<int64_t>(0, std::ssize(used(window)) - 1);
  }
  if (total == 0) {
    return fail(ErrorCode::kInvalidArgument, "text: expected at least one token, found none");
  }
  TextScore score;
  const auto chunk = static_cast<size_t>(model.options().chunk_tokens);
  for (const auto& tokens : windows) {
    const size_t n = used(tokens).size();
    if (n < 2) continue;
    Window window(model, reference, used(tokens), score);
    for (size_t done = 0; done < n - 1; done += chunk) {
      DS4_TRY_VOID(window.chunk(done, std::min(chunk, n - 1 - done)));
      if (progress && !progress(score.n_tokens(), total)) return score;
    }
  }
  return score;
}

std::vector<std::vector<Token>> text_windows(std::span<const Token> text, Token bos,
                                             int64_t ctx_tokens) {
  const auto step = static_cast<size_t>(std::max<int64_t>(1, ctx_tokens - 1));
  std::vector<std::vector<Token>> windows;
  for (size_t at = 0; at < text.size(); at += step) {
    const auto part = text.subspan(at, std::min(text.size() - at, step));
    windows.emplace_back(1, bos);
    windows.back().insert(windows.back().end(), part.begin(), part.end());
  }
  return windows;
}

Result<TextScore> score_text(Scorer& model, Scorer* reference, std::span<const Token> text,
                             Token bos, int64_t ctx_tokens, const TextProgress& progress) {
  return score_windows(model, reference, text_windows(text, bos, ctx_tokens), ctx_tokens, progress);
}

}  // namespace ds4::eval
