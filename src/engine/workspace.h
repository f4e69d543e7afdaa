#pragma once
// The activations of one step, allocated once for the largest step there will be. `view(n)` gives
// the same memory as tensors of n rows. Names follow docs/model.md.
#include <cstdint>

#include "base/result.h"
#include "model/config.h"
#include "ops/device.h"

namespace ds4 {

// N rows of the batch; all f32 unless said.
struct StepTensors {
  Tensor tokens;         // [N] i32
  Tensor positions;      // [N] i64
  Tensor rope_plain;     // [N, rope_head_dim] cos, sin of the uncompressed layers
  Tensor rope_compress;  // [N, rope_head_dim] of the compressed layers
  Tensor streams;        // [N, n_hc, hidden] the residual
  Tensor mix;            // [N, n_hc + n_hc^2]
  Tensor x;              // [N, hidden] a sublayer's input
  Tensor out;            // [N, hidden] its output
  Tensor shared_out;     // [N, hidden] the shared expert's part of it
  Tensor q_rank;         // [N, q_lora_rank]
  Tensor q;              // [N, n_heads, head_dim]
  Tensor kv;             // [N, head_dim]
  Tensor heads;          // [N, n_heads, head_dim] attention output per head
  Tensor o_rank;         // [N, o_groups * o_lora_rank]
  Tensor comp_kv;        // [N, 2 head_dim] the widest compressor input; narrower ones use a reshape
  Tensor comp_gate;      // [N, 2 head_dim]
  Tensor index_q;        // [N, index_n_heads, index_head_dim]
  Tensor index_weights;  // [N, index_n_heads]
  Tensor selected;       // [N, index_topk] i32
  Tensor router_logits;  // [N, n_experts]
  Tensor expert_ids;     // [N, n_experts_used] i32
  Tensor expert_weights;  // [N, n_experts_used]
  Tensor mid;             // [N, n_experts_used, expert_ffn]
  Tensor shared_gate;     // [N, expert_ffn]
  Tensor shared_up;       // [N, expert_ffn]
};

// M rows that go through the output head.
struct HeadTensors {
  Tensor streams;  // [M, n_hc, hidden]
  Tensor x;        // [M, hidden]
  Tensor logits;   // [M, vocab_size]
};

class Workspace {
 public:
  // Errors: kOutOfMemory with the bytes asked for.
  static Result<Workspace> create(Device& device, const ModelConfig& config, int64_t max_rows,
                                  int64_t max_logit_rows);
  static int64_t bytes_needed(const ModelConfig& config, int64_t max_rows, int64_t max_logit_rows);

  int64_t max_rows() const { return max_rows_; }
  int64_t max_logit_rows() const { return max_logit_rows_; }

  StepTensors step(int64_t n) const;
  HeadTensors head(int64_t m) const;

 private:
  Workspace() = default;
  int64_t max_rows_ = 0;
  int64_t max_logit_rows_ = 0;
  Buffer memory_;
  StepTensors step_;
  HeadTensors head_;
};

}  // namespace ds4
