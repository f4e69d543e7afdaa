#include "engine/workspace.h"

#include <fmt/format.h>

namespace ds4 {
namespace {

// Calls visit(tensor, dtype, shape) for every tensor of `n` rows.
template <typename Visit>
void each_step_tensor(StepTensors& t, const ModelConfig& c, int64_t n, Visit visit) {
  constexpr DType kF32 = DType::kF32;
  visit(t.tokens, DType::kI32, Shape{n});
  visit(t.positions, DType::kI64, Shape{n});
  visit(t.rope_plain, kF32, Shape{n, c.rope_head_dim});
  visit(t.rope_compress, kF32, Shape{n, c.rope_head_dim});
  visit(t.streams, kF32, Shape{n, c.n_hc, c.hidden});
  visit(t.mix, kF32, Shape{n, c.n_hc + c.n_hc * c.n_hc});
  visit(t.x, kF32, Shape{n, c.hidden});
  visit(t.out, kF32, Shape{n, c.hidden});
  visit(t.shared_out, kF32, Shape{n, c.hidden});
  visit(t.q_rank, kF32, Shape{n, c.q_lora_rank});
  visit(t.q, kF32, Shape{n, c.n_heads, c.head_dim});
  visit(t.kv, kF32, Shape{n, c.head_dim});
  visit(t.heads, kF32, Shape{n, c.n_heads, c.head_dim});
  visit(t.o_rank, kF32, Shape{n, c.o_groups * c.o_lora_rank});
  visit(t.comp_kv, kF32, Shape{n, 2 * c.head_dim});
  visit(t.comp_gate, kF32, Shape{n, 2 * c.head_dim});
  visit(t.index_q, kF32, Shape{n, c.index_n_heads, c.index_head_dim});
  visit(t.index_weights, kF32, Shape{n, c.index_n_heads});
  visit(t.selected, DType::kI32, Shape{n, c.index_topk});
  visit(t.router_logits, kF32, Shape{n, c.n_experts});
  visit(t.expert_ids, DType::kI32, Shape{n, c.n_experts_used});
  visit(t.expert_weights, kF32, Shape{n, c.n_experts_used});
  visit(t.mid, kF32, Shape{n, c.n_experts_used, c.expert_ffn});
  visit(t.shared_gate, kF32, Shape{n, c.expert_ffn});
  visit(t.shared_up, kF32, Shape{n, c.expert_ffn});
}

template <typename Visit>
void each_head_tensor(HeadTensors& t, const ModelConfig& c, int64_t m, Visit visit) {
  visit(t.streams, DType::kF32, Shape{m, c.n_hc, c.hidden});
  visit(t.x, DType::kF32, Shape{m, c.hidden});
  visit(t.logits, DType::kF32, Shape{m, c.vocab_size});
}

int64_t tensor_bytes(DType dtype, const Shape& shape) {
  const int64_t bytes = shape.n_rows() * row_bytes(dtype, shape.n_cols());
  return (bytes + 63) / 64 * 64;
}

}  // namespace

int64_t Workspace::bytes_needed(const ModelConfig& config, int64_t max_rows,
                                int64_t max_logit_rows) {
  int64_t bytes = 0;
  StepTensors step;
  HeadTensors head;
  const auto count = [&](Tensor&, DType dtype, const Shape& shape) {
    bytes += tensor_bytes(dtype, shape);
  };
  each_step_tensor(step, config, max_rows, count);
  each_head_tensor(head, config, max_logit_rows, count);
  return bytes;
}

Result<Workspace> Workspace::create(Device& device, const ModelConfig& config, int64_t max_rows,
                                    int64_t max_logit_rows) {
  DS4_CHECK(max_rows >= 1 && max_logit_rows >= 1);
  Workspace ws;
  ws.max_rows_ = max_rows;
  ws.max_logit_rows_ = max_logit_rows;
  auto memory = device.allocate(bytes_needed(config, max_rows, max_logit_rows));
  if (!memory) return fail_within(fmt::format("workspace for {} rows", max_rows), memory.error());
  ws.memory_ = std::move(*memory);
  std::byte* next = ws.memory_.data();
  const auto place = [&](Tensor& tensor, DType dtype, const Shape& shape) {
    tensor = Tensor(next, dtype, shape);
    next += tensor_bytes(dtype, shape);
  };
  each_step_tensor(ws.step_, config, max_rows, place);
  each_head_tensor(ws.head_, config, max_logit_rows, place);
  return ws;
}

StepTensors Workspace::step(int64_t n) const {
  DS4_CHECK(n >= 1 && n <= max_rows_);
  StepTensors t = step_;
  for (Tensor* tensor : {&t.tokens,     &t.positions,
                         &t.rope_plain, &t.rope_compress,
                         &t.streams,    &t.mix,
                         &t.x,          &t.out,
                         &t.shared_out, &t.q_rank,
                         &t.q,          &t.kv,
                         &t.heads,      &t.o_rank,
                         &t.comp_kv,    &t.comp_gate,
                         &t.index_q,    &t.index_weights,
                         &t.selected,   &t.router_logits,
                         &t.expert_ids, &t.expert_weights,
                         &t.mid,        &t.shared_gate,
                         &t.shared_up}) {
    *tensor = tensor->slice(0, n);
  }
  return t;
}

HeadTensors Workspace::head(int64_t m) const {
  DS4_CHECK(m >= 1 && m <= max_logit_rows_);
  return {head_.streams.slice(0, m), head_.x.slice(0, m), head_.logits.slice(0, m)};
}

}  // namespace ds4
