#include <fmt/format.h>

#include "answer.h"
#include "memory.h"

namespace ds4::cli {
namespace {

double gib(int64_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0); }

// "0 0 4 128 4 128": long schedules repeat, so a count of each is enough.
std::string schedule(const ModelConfig& c) {
  int64_t plain = 0, csa = 0, hca = 0;
  for (int64_t il = 0; il < c.n_layers; ++il) {
    const int ratio = c.compress_ratio(il);
    (ratio == 0 ? plain : ratio == 4 ? csa : hca) += 1;
  }
  return fmt::format("{} window only, {} ratio 4 with indexer, {} ratio 128", plain, csa, hca);
}

void print_shape(const ModelConfig& c) {
  fmt::print("shape        {}: {} layers ({})\n", c.name, c.n_layers, schedule(c));
  fmt::print("             hidden {}, heads {} x {}, q rank {}, output {} groups of rank {}\n",
             c.hidden, c.n_heads, c.head_dim, c.q_lora_rank, c.o_groups, c.o_lora_rank);
  fmt::print("             experts {} ({} used, {} shared) x {}, hash-routed layers {}\n",
             c.n_experts, c.n_experts_used, c.n_shared_experts, c.expert_ffn, c.n_hash_layers);
  fmt::print("             indexer {} x {}, top-k {}; window {}; context up to {}\n",
             c.index_n_heads, c.index_head_dim, c.index_topk, c.window, c.max_position);
}

// Of a synthetic file, which says so in its metadata.
void print_origin(const gguf::File& file) {
  const gguf::Value* seed = file.find("ds4.synth.seed");
  const auto number = seed == nullptr ? std::nullopt : seed->as_int();
  if (!number) return;
  const gguf::Value* data = file.find("ds4.synth.data");
  const bool sparse = data != nullptr && data->as_string() == "none";
  if (sparse) {
    fmt::print("synthetic    without data: all weights are 0\n");
  } else {
    fmt::print("synthetic    random weights, seed {}\n", *number);
  }
}

}  // namespace

Result<void> inspect(const Model& model, const Options& options) {
  const ModelConfig& c = model.config();
  fmt::print("model        {}\n", model.general_name());
  fmt::print("file         {} ({} bytes, {:.2f} GiB, {} tensors)\n", model.file().path(),
             model.file().file_bytes(), gib(model.file().file_bytes()),
             model.file().tensors().size());
  if (c.is_slice()) {
    fmt::print("slice        the first {} of the {} layers of {}, for tests and measurements\n",
               c.n_layers, c.slice_of_layers, c.name);
  }
  print_origin(model.file());
  print_shape(c);
  const char* label = "types";
  for (const TensorTypeUse& use : model.tensor_types()) {
    fmt::print("{:<12} {:<8} {:>5} tensors {:>14} bytes\n", label, use.type, use.n_tensors,
               use.bytes);
    label = "";
  }
  const MoeWeights& moe = model.weights().layers.front().moe;
  fmt::print("experts      gate and up {}, down {} in layer 0\n", dtype_name(moe.gate.dtype()),
             dtype_name(moe.down.dtype()));
  fmt::print("draft block  {}\n", model.has_mtp() ? "in the file (MTP)" : "none");
  fmt::print("vocabulary   {} tokens, {} merges\n", model.vocab().tokens.size(),
             model.vocab().merges.size());
  return print_memory_plan(model, options);
}

}  // namespace ds4::cli
