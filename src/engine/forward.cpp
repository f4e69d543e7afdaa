#include "engine/forward.h"

#include <fmt/format.h>

#include <cmath>

#include "model/rope.h"

namespace ds4 {
namespace {

// The first n * cols values of a wider workspace tensor, as rows of `cols`.
Tensor narrow(const Tensor& wide, int64_t cols) {
  DS4_CHECK(cols <= wide.n_cols());
  return Tensor(wide.data(), wide.dtype(), {wide.dim(0), cols});
}

// [N, heads * width] as [N, heads, width].
Tensor by_head(const Tensor& t, int64_t n_heads) {
  return t.reshape({t.dim(0), n_heads, t.n_cols() / n_heads});
}

// [N, heads, width] as [N, heads * width].
Tensor flat(const Tensor& t) { return t.reshape({t.dim(0), t.shape().n_elements() / t.dim(0)}); }

// [N, heads, width] as [N * heads, width].
Tensor each_head(const Tensor& t) { return t.reshape({t.n_rows(), t.n_cols()}); }

}  // namespace

Forward::Forward(Device& device, Ops& ops, const ModelConfig& config, const Weights& weights,
                 ForwardOptions options, Workspace workspace)
    : device_(device),
      ops_(ops),
      config_(config),
      weights_(weights),
      options_(options),
      workspace_(std::move(workspace)),
      hc_params_{.n_hc = config.n_hc,
                 .sinkhorn_iters = config.hc_sinkhorn_iters,
                 .hc_eps = config.hc_eps,
                 .rms_eps = config.rms_eps},
      rope_plain_freqs_(rope_frequencies(config, /*compressed=*/false)),
      rope_compress_freqs_(rope_frequencies(config, /*compressed=*/true)) {
  for (int il = options_.layer_begin; il < options_.layer_end; ++il) {
    ratios_.push_back(static_cast<int>(config.compress_ratio(il)));
  }
  tokens_.reserve(static_cast<size_t>(options_.max_rows));
  positions_.reserve(static_cast<size_t>(options_.max_rows));
  spans_.reserve(static_cast<size_t>(options_.max_spans));
  caches_.reserve(static_cast<size_t>(options_.max_spans));
}

Result<Forward> Forward::create(Device& device, Ops& ops, const ModelConfig& config,
                                const Weights& weights, ForwardOptions options) {
  if (options.layer_end < 0) options.layer_end = static_cast<int>(config.n_layers);
  if (options.layer_begin < 0 || options.layer_begin > options.layer_end ||
      options.layer_end > config.n_layers) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("layers {}:{}: expected a range within 0:{}", options.layer_begin,
                            options.layer_end, config.n_layers));
  }
  DS4_TRY(Workspace workspace,
          Workspace::create(device, config, options.max_rows, options.max_logit_rows));
  ops.reserve(config, options.max_rows);
  return Forward(device, ops, config, weights, options, std::move(workspace));
}

Result<void> Forward::run(const StepInput& input) {
  DS4_TRY_VOID(prepare(input));
  begin_step(input);
  if (options_.layer_begin == 0) {
    ops_.embed(step_.x, weights_.token_embd, step_.tokens);
    ops_.broadcast_streams(step_.streams, step_.x);
  } else {
    device_.copy(step_.streams.data(), input.streams_in.data(),
                 step_.streams.shape().n_elements() * 4);
  }
  for (int il = options_.layer_begin; il < options_.layer_end; ++il) {
    run_layer(weights_.layers[static_cast<size_t>(il)], il - options_.layer_begin);
  }
  if (options_.layer_end == config_.n_layers) {
    run_head(input.logit_rows, weights_.output_hc, weights_.output_norm);
  }
  return finish_step(input);
}

// MTP (paper section 2.4): U_k = e_proj rms(embed(next token)) + h_proj rms(stream_k), one more
// layer, and a head of its own around the shared output matrix.
Result<void> Forward::run_draft(const StepInput& input) {
  if (!weights_.mtp) return fail(ErrorCode::kUnsupported, "the model file has no MTP block");
  const MtpWeights& mtp = *weights_.mtp;
  DS4_TRY_VOID(prepare(input));
  begin_step(input);
  ops_.embed(step_.x, weights_.token_embd, step_.tokens);
  ops_.rms_norm(step_.x, step_.x, mtp.enorm, config_.rms_eps);
  ops_.linear(step_.out, step_.x, mtp.e_proj);
  // The streams are normalised beside the batch's own, in q, the only tensor that is wide enough.
  const Tensor normed(step_.q.data(), DType::kF32, {n_rows_ * config_.n_hc, config_.hidden});
  DS4_CHECK(config_.n_heads * config_.head_dim >= config_.n_hc * config_.hidden);
  const ConstTensor streams_in(input.streams_in.data(), DType::kF32, normed.shape());
  ops_.rms_norm(normed, streams_in, mtp.hnorm, config_.rms_eps);
  ops_.linear(each_head(step_.streams), normed, mtp.h_proj);
  ops_.add_to_streams(step_.streams, step_.out);
  run_layer(mtp.layer, 0);
  run_head(input.logit_rows, mtp.hc_head, mtp.norm);
  return finish_step(input);
}

Result<void> Forward::prepare(const StepInput& input) {
  DS4_TRY_VOID(check(input));
  for (const StepSpan& span : input.spans) {
    DS4_TRY_VOID(span.cache->prepare(static_cast<int64_t>(span.tokens.size())));
  }
  return {};
}

Result<void> Forward::check(const StepInput& input) const {
  if (static_cast<int64_t>(input.spans.size()) > options_.max_spans) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("step: expected at most {} spans, found {}", options_.max_spans,
                            input.spans.size()));
  }
  int64_t n_rows = 0;
  for (const StepSpan& span : input.spans) {
    const int64_t n = static_cast<int64_t>(span.tokens.size());
    if (n == 0) return fail(ErrorCode::kInvalidArgument, "step: a span without tokens");
    if (span.cache->length() + n > span.cache->capacity()) {
      return fail(ErrorCode::kContextFull,
                  fmt::format("context full: {} positions are used, {} more do not fit into {}",
                              span.cache->length(), n, span.cache->capacity()));
    }
    for (Token token : span.tokens) {
      if (token < 0 || token >= config_.vocab_size) {
        return fail(ErrorCode::kInvalidArgument,
                    fmt::format("token {}: expected 0 .. {}", token, config_.vocab_size - 1));
      }
    }
    n_rows += n;
  }
  if (n_rows < 1 || n_rows > options_.max_rows) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("step: expected 1 .. {} rows, found {}", options_.max_rows, n_rows));
  }
  const int64_t n_logit_rows = static_cast<int64_t>(input.logit_rows.size());
  if (n_logit_rows > options_.max_logit_rows) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("step: expected at most {} logit rows, found {}",
                            options_.max_logit_rows, n_logit_rows));
  }
  for (int64_t row : input.logit_rows) DS4_CHECK(row >= 0 && row < n_rows);
  return {};
}

void Forward::begin_step(const StepInput& input) {
  tokens_.clear();
  positions_.clear();
  spans_.clear();
  caches_.clear();
  for (const StepSpan& span : input.spans) {
    KvSpan kv_span;
    kv_span.first_row = static_cast<int64_t>(tokens_.size());
    kv_span.n_rows = static_cast<int64_t>(span.tokens.size());
    kv_span.first_pos = span.cache->length();
    kv_span.kind = span.kind;
    spans_.push_back(kv_span);
    caches_.push_back(span.cache);
    for (Token token : span.tokens) {
      positions_.push_back(kv_span.first_pos + static_cast<int64_t>(tokens_.size()) -
                           kv_span.first_row);
      tokens_.push_back(token);
    }
  }
  n_rows_ = static_cast<int64_t>(tokens_.size());
  step_ = workspace_.step(n_rows_);
  head_ = {};
  device_.upload(step_.tokens.data(), std::as_bytes(std::span(tokens_)));
  device_.upload(step_.positions.data(), std::as_bytes(std::span(positions_)));
  ops_.rope_table(step_.rope_plain, step_.positions, rope_plain_freqs_);
  ops_.rope_table(step_.rope_compress, step_.positions, rope_compress_freqs_);
}

// One decoder layer over the rows of the step. The streams are the residual; each sublayer sees
// their collapse x and its output is spread over them again (paper section 2.2).
void Forward::run_layer(const LayerWeights& w, int cache_layer) {
  for (size_t i = 0; i < spans_.size(); ++i) spans_[i].kv = caches_[i]->layer(cache_layer);

  ops_.hc_collapse(step_.x, step_.mix, step_.streams, w.attn_hc, hc_params_);
  ops_.rms_norm(step_.x, step_.x, w.attn.norm, config_.rms_eps);
  attention(w);  // x -> out; appends to the caches
  ops_.hc_expand(step_.streams, step_.out, step_.mix);

  ops_.hc_collapse(step_.x, step_.mix, step_.streams, w.ffn_hc, hc_params_);
  ops_.rms_norm(step_.x, step_.x, w.moe.norm, config_.rms_eps);
  moe(w.moe);  // x -> out
  ops_.hc_expand(step_.streams, step_.out, step_.mix);
}

// Sections 2.3.1-2.3.3. The row a token completes is visible to that token, so compression comes
// before selection and selection before attention; the ring is written last, because until then it
// holds rows that the first rows of the span still see.
void Forward::attention(const LayerWeights& w) {
  const AttentionWeights& a = w.attn;
  const int ratio = w.compress_ratio;
  const ConstTensor rope = ratio == 0 ? step_.rope_plain : step_.rope_compress;

  ops_.linear(step_.q_rank, step_.x, a.q_a);
  ops_.rms_norm(step_.q_rank, step_.q_rank, a.q_a_norm, config_.rms_eps);
  ops_.linear(flat(step_.q), step_.q_rank, a.q_b);
  ops_.rms_norm(each_head(step_.q), each_head(step_.q), {}, config_.rms_eps);
  ops_.rope(step_.q, rope, /*inverse=*/false);

  ops_.linear(step_.kv, step_.x, a.kv);
  ops_.rms_norm(step_.kv, step_.kv, a.kv_norm, config_.rms_eps);
  ops_.rope(by_head(step_.kv, 1), rope, /*inverse=*/false);
  ops_.round_kv(step_.kv, config_.rope_head_dim, options_.precision);

  if (ratio != 0) compress(w.compressor, ratio, /*index_rows=*/false);
  if (ratio == 4) {
    compress(w.indexer.compressor, ratio, /*index_rows=*/true);
    select_rows(w.indexer);
  }
  const ConstTensor selected = ratio == 4 ? ConstTensor(step_.selected) : ConstTensor();
  ops_.attention(step_.heads, step_.q, step_.kv, a.sinks, selected, spans_,
                 {.window = config_.window, .ratio = ratio});
  ops_.append_raw(spans_, step_.kv);

  ops_.rope(step_.heads, rope, /*inverse=*/true);
  ops_.grouped_linear(step_.o_rank, flat(step_.heads), a.o_a, config_.o_groups);
  ops_.linear(step_.out, step_.o_rank, a.o_b);
}

void Forward::compress(const CompressorWeights& w, int ratio, bool index_rows) {
  const Tensor kv = narrow(step_.comp_kv, w.kv.dim(0));
  const Tensor gate = narrow(step_.comp_gate, w.gate.dim(0));
  ops_.linear(kv, step_.x, w.kv);
  ops_.linear(gate, step_.x, w.gate);
  ops_.compress(spans_, kv, gate, w.ape, w.norm, rope_compress_freqs_,
                {.ratio = ratio,
                 .rms_eps = config_.rms_eps,
                 .index_rows = index_rows,
                 .precision = options_.precision});
}

// While no query of the step has more rows than topk, the choice is "all" and needs no query
// vectors; a row's choice is the same either way.
void Forward::select_rows(const IndexerWeights& w) {
  bool must_choose = false;
  for (const KvSpan& span : spans_) {
    must_choose |= (span.first_pos + span.n_rows) / 4 > config_.index_topk;
  }
  if (must_choose) {
    ops_.linear(flat(step_.index_q), step_.q_rank, w.q_b);
    ops_.rope(step_.index_q, step_.rope_compress, /*inverse=*/false);
    ops_.round_index(each_head(step_.index_q), options_.precision);
    ops_.linear(step_.index_weights, step_.x, w.proj);
  }
  const double scale = 1.0 / std::sqrt(static_cast<double>(config_.index_head_dim) *
                                       static_cast<double>(config_.index_n_heads));
  ops_.index_topk(step_.selected, step_.index_q, step_.index_weights, static_cast<float>(scale),
                  spans_);
}

// Section 2.1: k routed experts in ascending id, then the shared one.
void Forward::moe(const MoeWeights& w) {
  const float routed_scale = config_.routed_scale, limit = config_.swiglu_limit;
  ops_.linear(step_.router_logits, step_.x, w.router);
  if (w.hash_ids.empty()) {
    ops_.route(step_.expert_ids, step_.expert_weights, step_.router_logits, w.router_bias,
               routed_scale);
  } else {
    ops_.route_hashed(step_.expert_ids, step_.expert_weights, step_.router_logits, step_.tokens,
                      w.hash_ids, routed_scale);
  }
  ops_.experts_gate_up(step_.mid, step_.x, step_.expert_ids, step_.expert_weights, w.gate, w.up,
                       limit);
  ops_.experts_down(step_.out, step_.mid, step_.expert_ids, w.down);

  ops_.linear(step_.shared_gate, step_.x, w.shared_gate);
  ops_.linear(step_.shared_up, step_.x, w.shared_up);
  ops_.swiglu(step_.shared_gate, step_.shared_gate, step_.shared_up, limit);
  ops_.linear(step_.shared_out, step_.shared_gate, w.shared_down);
  ops_.add(step_.out, step_.shared_out);
}

void Forward::run_head(std::span<const int64_t> rows, const HcWeights& hc, ConstTensor norm) {
  if (rows.empty()) return;
  head_ = workspace_.head(static_cast<int64_t>(rows.size()));
  ops_.gather_rows(head_.streams, step_.streams, rows);
  ops_.hc_head(head_.x, head_.streams, hc, hc_params_);
  ops_.rms_norm(head_.x, head_.x, norm, config_.rms_eps);
  ops_.linear(head_.logits, head_.x, weights_.output);
}

Result<void> Forward::finish_step(const StepInput& input) {
  DS4_TRY_VOID(device_.synchronize());
  for (const StepSpan& span : input.spans) {
    span.cache->advance(static_cast<int64_t>(span.tokens.size()));
  }
  return {};
}

}  // namespace ds4
