#include "ops/trace_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace ds4 {
namespace {

int64_t view_bytes(const ConstTensor& t) {
  return t.empty() ? 0 : t.n_rows() * row_bytes(t.dtype(), t.n_cols());
}

template <typename... More>
int64_t view_bytes(const ConstTensor& t, const More&... more) {
  return view_bytes(t) + view_bytes(more...);
}

// One expert for each slot, but no more than the stack has.
int64_t used_expert_bytes(const ConstTensor& stack, const ConstTensor& ids) {
  const int64_t n_experts = stack.dim(0);
  return view_bytes(stack) / n_experts * std::min(n_experts, ids.shape().n_elements());
}

constexpr std::string_view kNames[] = {
    "embed",        "broadcast_streams", "add_to_streams", "gather_rows", "hc_collapse",
    "hc_expand",    "hc_head",           "rms_norm",       "linear",      "grouped_linear",
    "add",          "rope_table",        "rope",           "round_kv",    "round_index",
    "compress",     "index_topk",        "attention",      "append_raw",  "route",
    "route_hashed", "experts_gate_up",   "experts_down",   "swiglu",
};

}  // namespace

// In the order of kNames.
enum TraceOps::Op : int {
  kEmbed,
  kBroadcastStreams,
  kAddToStreams,
  kGatherRows,
  kHcCollapse,
  kHcExpand,
  kHcHead,
  kRmsNorm,
  kLinear,
  kGroupedLinear,
  kAdd,
  kRopeTable,
  kRope,
  kRoundKv,
  kRoundIndex,
  kCompress,
  kIndexTopk,
  kAttention,
  kAppendRaw,
  kRoute,
  kRouteHashed,
  kExpertsGateUp,
  kExpertsDown,
  kSwiglu,
  kCount
};

// Adds its own lifetime to the use of an op.
class TraceOps::Timer {
 public:
  Timer(TraceOps& trace, Op op, int64_t bytes)
      : use_(trace.uses_[static_cast<size_t>(trace.phase_)][static_cast<size_t>(op)]),
        start_(std::chrono::steady_clock::now()) {
    ++use_.calls;
    use_.bytes += bytes;
  }
  ~Timer() {
    use_.seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  OpUse& use_;
  const std::chrono::steady_clock::time_point start_;
};

TraceOps::TraceOps(std::unique_ptr<Ops> inner) : inner_(std::move(inner)) {
  static_assert(std::size(kNames) == kCount && kCount <= kMaxOps, "a name for each op");
  for (auto& phase : uses_) {
    for (size_t op = 0; op < std::size(kNames); ++op) phase[op].name = kNames[op];
  }
}

std::vector<OpUse> TraceOps::profile(Phase phase) const {
  std::vector<OpUse> uses;
  for (const OpUse& use : uses_[static_cast<size_t>(phase)]) {
    if (use.calls > 0) uses.push_back(use);
  }
  std::sort(uses.begin(), uses.end(),
            [](const OpUse& a, const OpUse& b) { return a.seconds > b.seconds; });
  return uses;
}

std::string profile_table(const std::vector<OpUse>& uses) {
  double total = 0;
  for (const OpUse& use : uses) total += use.seconds;
  std::string text;
  for (const OpUse& use : uses) {
    text += fmt::format("  {:<18}{:>9} calls {:>11.3f} ms {:>5.1f} %", use.name, use.calls,
                        use.seconds * 1e3, total > 0 ? 100 * use.seconds / total : 0.0);
    if (use.bytes > 0 && use.seconds > 0) {
      text += fmt::format(" {:>7.2f} GB/s", static_cast<double>(use.bytes) * 1e-9 / use.seconds);
    }
    text += '\n';
  }
  text += fmt::format("  {:<24}{:>21.3f} ms\n", "all ops", total * 1e3);
  return text;
}

void TraceOps::do_reserve(const ModelConfig& config, int64_t max_rows) {
  inner_->reserve(config, max_rows);
}

int64_t TraceOps::do_repack(std::span<const ConstTensor> weights, int64_t bytes_max) {
  return inner_->repack(weights, bytes_max);
}

void TraceOps::do_embed(Tensor x, ConstTensor table, ConstTensor tokens) {
  const Timer timer(*this, kEmbed, 2 * view_bytes(x));
  inner_->embed(x, table, tokens);
}

void TraceOps::do_broadcast_streams(Tensor streams, ConstTensor x) {
  const Timer timer(*this, kBroadcastStreams, view_bytes(streams, x));
  inner_->broadcast_streams(streams, x);
}

void TraceOps::do_add_to_streams(Tensor streams, ConstTensor x) {
  const Timer timer(*this, kAddToStreams, view_bytes(streams, streams, x));
  inner_->add_to_streams(streams, x);
}

void TraceOps::do_gather_rows(Tensor dst, ConstTensor src, std::span<const int64_t> rows) {
  const Timer timer(*this, kGatherRows, view_bytes(dst, dst));
  inner_->gather_rows(dst, src, rows);
}

void TraceOps::do_hc_collapse(Tensor x, Tensor mix, ConstTensor streams, const HcWeights& w,
                              const HcParams& params) {
  const Timer timer(*this, kHcCollapse, view_bytes(x, mix, streams, w.fn));
  inner_->hc_collapse(x, mix, streams, w, params);
}

void TraceOps::do_hc_expand(Tensor streams, ConstTensor y, ConstTensor mix) {
  const Timer timer(*this, kHcExpand, view_bytes(streams, streams, y, mix));
  inner_->hc_expand(streams, y, mix);
}

void TraceOps::do_hc_head(Tensor x, ConstTensor streams, const HcWeights& w,
                          const HcParams& params) {
  const Timer timer(*this, kHcHead, view_bytes(x, streams, w.fn));
  inner_->hc_head(x, streams, w, params);
}

void TraceOps::do_rms_norm(Tensor out, ConstTensor x, ConstTensor weight, float eps) {
  const Timer timer(*this, kRmsNorm, view_bytes(out, x, weight));
  inner_->rms_norm(out, x, weight, eps);
}

void TraceOps::do_linear(Tensor out, ConstTensor x, ConstTensor w) {
  const Timer timer(*this, kLinear, view_bytes(out, x, w));
  inner_->linear(out, x, w);
}

void TraceOps::do_grouped_linear(Tensor out, ConstTensor x, ConstTensor w, int64_t n_groups) {
  const Timer timer(*this, kGroupedLinear, view_bytes(out, x, w));
  inner_->grouped_linear(out, x, w, n_groups);
}

void TraceOps::do_add(Tensor out, ConstTensor x) {
  const Timer timer(*this, kAdd, view_bytes(out, out, x));
  inner_->add(out, x);
}

void TraceOps::do_rope_table(Tensor table, ConstTensor positions, std::span<const float> freqs) {
  const Timer timer(*this, kRopeTable, view_bytes(table));
  inner_->rope_table(table, positions, freqs);
}

void TraceOps::do_rope(Tensor x, ConstTensor table, bool inverse) {
  const Timer timer(*this, kRope, view_bytes(x, x, table));
  inner_->rope(x, table, inverse);
}

void TraceOps::do_round_kv(Tensor kv, int64_t rope_head_dim, const Precision& precision) {
  const Timer timer(*this, kRoundKv, view_bytes(kv, kv));
  inner_->round_kv(kv, rope_head_dim, precision);
}

// Ops::round_index has decided already that there is something to round.
void TraceOps::do_round_index(Tensor rows) {
  const Timer timer(*this, kRoundIndex, view_bytes(rows, rows));
  inner_->round_index(rows, Precision::official());
}

void TraceOps::do_compress(std::span<const KvSpan> spans, ConstTensor kv, ConstTensor gate,
                           ConstTensor ape, ConstTensor norm, std::span<const float> rope_freqs,
                           const CompressParams& params) {
  const Timer timer(*this, kCompress, view_bytes(kv, gate));
  inner_->compress(spans, kv, gate, ape, norm, rope_freqs, params);
}

void TraceOps::do_index_topk(Tensor selected, ConstTensor q, ConstTensor weights, float scale,
                             std::span<const KvSpan> spans) {
  const Timer timer(*this, kIndexTopk, 0);
  inner_->index_topk(selected, q, weights, scale, spans);
}

void TraceOps::do_attention(Tensor out, ConstTensor q, ConstTensor kv, ConstTensor sinks,
                            ConstTensor selected, std::span<const KvSpan> spans,
                            const AttentionParams& params) {
  const Timer timer(*this, kAttention, 0);
  inner_->attention(out, q, kv, sinks, selected, spans, params);
}

void TraceOps::do_append_raw(std::span<const KvSpan> spans, ConstTensor kv) {
  const Timer timer(*this, kAppendRaw, view_bytes(kv, kv));
  inner_->append_raw(spans, kv);
}

void TraceOps::do_route(Tensor ids, Tensor weights, ConstTensor logits, ConstTensor bias,
                        float scale) {
  {
    const Timer timer(*this, kRoute, view_bytes(ids, weights, logits));
    inner_->route(ids, weights, logits, bias, scale);
  }
  if (route_observer_) route_observer_(ids);
}

void TraceOps::do_route_hashed(Tensor ids, Tensor weights, ConstTensor logits, ConstTensor tokens,
                               ConstTensor table, float scale) {
  {
    const Timer timer(*this, kRouteHashed, view_bytes(ids, weights, logits));
    inner_->route_hashed(ids, weights, logits, tokens, table, scale);
  }
  if (route_observer_) route_observer_(ids);
}

void TraceOps::do_experts_gate_up(Tensor mid, ConstTensor x, ConstTensor ids, ConstTensor weights,
                                  ConstTensor gate, ConstTensor up, float limit) {
  const Timer timer(*this, kExpertsGateUp, view_bytes(mid, x) + 2 * used_expert_bytes(gate, ids));
  inner_->experts_gate_up(mid, x, ids, weights, gate, up, limit);
}

void TraceOps::do_experts_down(Tensor out, ConstTensor mid, ConstTensor ids, ConstTensor down) {
  const Timer timer(*this, kExpertsDown, view_bytes(out, mid) + used_expert_bytes(down, ids));
  inner_->experts_down(out, mid, ids, down);
}

void TraceOps::do_swiglu(Tensor h, ConstTensor g, ConstTensor u, float limit) {
  const Timer timer(*this, kSwiglu, view_bytes(h, g, u));
  inner_->swiglu(h, g, u, limit);
}

}  // namespace ds4
