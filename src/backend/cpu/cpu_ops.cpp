#include "backend/cpu/cpu_ops.h"

#include <algorithm>

#include "backend/cpu/attention_scratch.h"

namespace ds4::cpu {
namespace {

// The widest input of any projection of a step, as int8.
int64_t activation_bytes(const ModelConfig& c, int64_t max_rows) {
  const auto rows = [&](int64_t each, int64_t width, int64_t n_parts) {
    return Activations::bytes_needed(max_rows * each, width, n_parts);
  };
  return std::max({rows(c.n_hc, c.hidden, 1),  // the draft block's streams
                   rows(1, c.q_lora_rank, 1), rows(1, c.n_heads * c.head_dim, c.o_groups),
                   rows(1, c.o_groups * c.o_lora_rank, 1),
                   rows(c.n_experts_used, c.expert_ffn, 1)});
}

int64_t mixes_bytes(const ModelConfig& c, int64_t max_rows) {
  return max_rows * c.hc_mix_rows() * static_cast<int64_t>(sizeof(float));
}

}  // namespace

std::string_view target_name() { return select_kernels().target; }
bool is_slow_target() { return select_kernels().slow_target; }

CpuOps::CpuOps(ThreadPool& pool, CpuOptions options)
    : HostOps(pool), options_(options), kernels_(select_kernels()), activations_(kernels_) {}

int64_t scratch_bytes(const ModelConfig& config, int64_t max_rows, int n_threads,
                      const CpuOptions& options) {
  return (options.integer_activations ? activation_bytes(config, max_rows) : 0) +
         mixes_bytes(config, max_rows) +
         n_threads * (index_part_bytes(config.index_n_heads, config.index_topk) +
                      tile_bytes(config.head_dim)) +
         ExpertGroups::bytes_needed(config.n_experts, max_rows * config.n_experts_used);
}

void CpuOps::do_reserve(const ModelConfig& config, int64_t max_rows) {
  if (options_.integer_activations) activations_.reserve(activation_bytes(config, max_rows));
  mixes_memory_.reserve(mixes_bytes(config, max_rows));
  index_memory_.reserve(pool_.n_threads() *
                        index_part_bytes(config.index_n_heads, config.index_topk));
  tiles_.reserve(pool_.n_threads() * tile_bytes(config.head_dim));
  groups_.reserve(config.n_experts, max_rows * config.n_experts_used);
}

}  // namespace ds4::cpu
