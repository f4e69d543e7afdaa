#include "check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <utility>

#include "backend/backend.h"
#include "engine/forward.h"
#include "quantizer/synth_rows.h"

namespace ds4 {
namespace {

// One layer's state over the prompt and the tokens after it.
struct LayerState {
  std::unique_ptr<KvPool> pool;
  KvCache cache;
};

class Walk {
 public:
  static Result<Walk> create(const Model& model, const CheckOptions& options) {
    Walk walk(model, options);
    DS4_TRY(walk.backend_,
            make_backend(BackendKind::kCpu, {.n_threads = options.n_threads, .trace = true}));
    const ModelConfig& c = model.config();
    for (int64_t il = 0; il < c.n_layers; ++il) {
      const int ratio = c.compress_ratio(il);
      DS4_TRY(auto pool, KvPool::create(*walk.backend_.device, c, {&ratio, 1},
                                        kv_storage(BackendKind::kCpu, Precision::official())));
      DS4_TRY(KvCache cache, KvCache::create(*pool, options.n_tokens + options.n_decode));
      walk.states_.push_back({std::move(pool), std::move(cache)});
    }
    DS4_TRY(walk.streams_,
            walk.backend_.device->allocate(options.n_tokens * c.n_hc * c.hidden * 4));
    return walk;
  }

  // Evaluates the tokens in all layers and returns the likeliest next one.
  Result<Token> step(std::span<const Token> tokens, SpanKind kind, ModelCheck& check) {
    const auto n_layers = static_cast<int>(model_.config().n_layers);
    Token next = 0;
    for (int il = 0; il < n_layers; ++il) {
      DS4_TRY(next, run_layer(il, tokens, kind, check));
    }
    check.n_tokens += static_cast<int64_t>(tokens.size());
    return next;
  }

 private:
  Walk(const Model& model, const CheckOptions& options) : model_(model), options_(options) {}

  // A stage of one layer, made for this step alone: its workspace is small beside its weights.
  Result<Token> run_layer(int il, std::span<const Token> tokens, SpanKind kind, ModelCheck& check) {
    const ModelConfig& c = model_.config();
    const auto n = static_cast<int64_t>(tokens.size());
    LayerCheck& layer = check.layers[static_cast<size_t>(il)];
    backend_.trace->set_route_observer([&layer](ConstTensor ids) {
      for (int64_t row = 0; row < ids.n_rows(); ++row) {
        for (int64_t k = 0; k < ids.n_cols(); ++k) {
          ++layer.expert_tokens[static_cast<size_t>(ids.row<int32_t>(row)[k])];
        }
      }
    });
    DS4_TRY(Forward forward, Forward::create(*backend_.device, *backend_.ops, c, model_.weights(),
                                             {.max_rows = n,
                                              .max_logit_rows = 1,
                                              .max_spans = 1,
                                              .layer_begin = il,
                                              .layer_end = il + 1}));
    const StepSpan span{&states_[static_cast<size_t>(il)].cache, tokens, kind};
    const int64_t last_row = n - 1;
    const ConstTensor streams_in(streams_.data(), DType::kF32, {n, c.n_hc, c.hidden});
    DS4_TRY_VOID(
        forward.run({.spans = {&span, 1}, .logit_rows = {&last_row, 1}, .streams_in = streams_in}));
    const ConstTensor out = forward.streams();
    const int64_t bytes = out.shape().n_elements() * 4;
    backend_.device->copy(streams_.data(), out.data(), bytes);
    look_at(download(out), layer);
    if (il + 1 < c.n_layers) return Token{0};
    return look_at_logits(download(forward.logits()), check);
  }

  std::vector<float> download(ConstTensor t) {
    std::vector<float> values(static_cast<size_t>(t.shape().n_elements()));
    backend_.device->download(std::as_writable_bytes(std::span(values)), t.data());
    return values;
  }

  static void look_at(const std::vector<float>& values, LayerCheck& layer) {
    double squares = 0;
    for (const float value : values) {
      layer.finite &= std::isfinite(value);
      layer.max_abs = std::max(layer.max_abs, std::abs(static_cast<double>(value)));
      squares += static_cast<double>(value) * value;
    }
    // Of the prompt, which has many more values than a token.
    layer.rms = std::max(layer.rms, std::sqrt(squares / static_cast<double>(values.size())));
  }

  static Token look_at_logits(const std::vector<float>& logits, ModelCheck& check) {
    for (const float logit : logits) {
      check.logits_finite &= std::isfinite(logit);
      check.max_logit = std::max(check.max_logit, std::abs(static_cast<double>(logit)));
    }
    return static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }

  const Model& model_;
  CheckOptions options_;
  Backend backend_;
  std::vector<LayerState> states_;
  Buffer streams_;  // between two layers
};

}  // namespace

Result<void> ModelCheck::verdict(double hidden_max) const {
  for (size_t il = 0; il < layers.size(); ++il) {
    if (!layers[il].finite) {
      return fail(ErrorCode::kNonFinite, fmt::format("layer {}: NaN or infinite values", il));
    }
    if (layers[il].max_abs > hidden_max) {
      return fail(ErrorCode::kNonFinite,
                  fmt::format("layer {}: max |hidden| {:.1f}, expected at most {:.0f}", il,
                              layers[il].max_abs, hidden_max));
    }
  }
  if (logits_finite) return {};
  return fail(ErrorCode::kNonFinite, "the logits are not finite");
}

Result<ModelCheck> check_model(const Model& model, const CheckOptions& options) {
  const ModelConfig& c = model.config();
  ModelCheck check;
  check.layers.resize(static_cast<size_t>(c.n_layers));
  for (LayerCheck& layer : check.layers) {
    layer.expert_tokens.assign(static_cast<size_t>(c.n_experts), 0);
  }
  SynthBits bits(options.seed);
  std::vector<Token> prompt;
  while (static_cast<int64_t>(prompt.size()) < options.n_tokens) {
    prompt.push_back(static_cast<Token>(bits.below(static_cast<uint32_t>(c.vocab_size))));
  }
  DS4_TRY(Walk walk, Walk::create(model, options));
  DS4_TRY(Token next, walk.step(prompt, SpanKind::kPrefill, check));
  for (int64_t i = 0; i < options.n_decode; ++i) {
    const Token token = next;
    DS4_TRY(next, walk.step({&token, 1}, SpanKind::kDecode, check));
  }
  return check;
}

std::string describe_check(const ModelCheck& check) {
  std::string text = fmt::format(
      "check    {} tokens, as a prompt and then one by one\n"
      "  layer  max |hidden|       rms   expert load / mean: min   max\n",
      check.n_tokens);
  for (size_t il = 0; il < check.layers.size(); ++il) {
    const LayerCheck& layer = check.layers[il];
    int64_t sum = 0;
    for (const int64_t n : layer.expert_tokens) sum += n;
    const auto [least, most] =
        std::minmax_element(layer.expert_tokens.begin(), layer.expert_tokens.end());
    const double mean = static_cast<double>(sum) / static_cast<double>(layer.expert_tokens.size());
    text += fmt::format("  {:>5}  {:>12.3f}  {:>8.3f}  {:>23.2f} {:>5.2f}\n", il, layer.max_abs,
                        layer.rms, static_cast<double>(*least) / mean,
                        static_cast<double>(*most) / mean);
  }
  text += fmt::format("  logits {}, max |logit| {:.3f}\n",
                      check.logits_finite ? "finite" : "NOT FINITE", check.max_logit);
  return text;
}

}  // namespace ds4
