#pragma once
// The layer walk of DeepSeek-V4, written once: prefill, decode, several sessions in one step,
// verification of drafts, a pipeline stage's range of layers, and the MTP draft block are this walk
// over another batch. It knows shapes and order; what is computed where is the Ops' business.
//
// A batch is a list of spans, each some consecutive positions of one session. A row's result
// depends on its own session alone, bit for bit: not on the other spans, not on how a prompt was
// cut.
//
// Single-thread. Model, Ops and Device must outlive it. run() allocates nothing.
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/kv_cache.h"
#include "engine/workspace.h"
#include "model/config.h"
#include "model/weights.h"
#include "ops/device.h"
#include "ops/ops.h"
#include "tokenizer/token.h"

namespace ds4 {

struct ForwardOptions {
  Precision precision;
  int64_t max_rows = 512;       // rows of a step; sizes the workspace
  int64_t max_logit_rows = 16;  // rows that go through the output head in a step
  int64_t max_spans = 16;       // spans of a step
  int layer_begin = 0;          // layers [layer_begin, layer_end) are this stage's
  int layer_end = -1;           // -1: to the last layer, and the output head
};

// Consecutive tokens of one session; they continue at cache->length().
struct StepSpan {
  KvCache* cache = nullptr;
  std::span<const Token> tokens;
  SpanKind kind = SpanKind::kPrefill;
};

struct StepInput {
  std::span<const StepSpan> spans;
  // Rows of the batch (spans one after the other) whose logits are wanted.
  std::span<const int64_t> logit_rows;
  // Residual streams of the batch, [N, n_hc, hidden] f32 on this device: the output of the stage
  // before, when layer_begin > 0.
  ConstTensor streams_in;
};

class Forward {
 public:
  // Errors: kOutOfMemory; kInvalidArgument for a layer range that is not part of the model.
  static Result<Forward> create(Device& device, Ops& ops, const ModelConfig& config,
                                const Weights& weights, ForwardOptions options);

  // Evaluates a batch: appends to each span's cache, leaves streams() and logits() behind.
  // Errors: kInvalidArgument (a token outside the vocabulary, an empty span, too many rows or
  // spans), kContextFull (a cache too small), kOutOfMemory (no pages), all before anything changed;
  // kDevice afterwards.
  Result<void> run(const StepInput& input);

  // The draft block over a batch: row i pairs streams_in[i] (the target's streams of a position)
  // with the token after it, and predicts the token after that. `spans` carry those next tokens and
  // the draft block's own caches (one layer, ratio 0). Same errors as run().
  Result<void> run_draft(const StepInput& input);

  // Output streams of the last run, [N, n_hc, hidden] f32; valid until the next one.
  ConstTensor streams() const { return step_.streams; }
  // Logits of the last run's logit rows, [M, vocab_size] f32; valid until the next one.
  ConstTensor logits() const { return head_.logits; }

  const ForwardOptions& options() const { return options_; }
  // Ratios of this stage's layers: what a session's KvCache is made for.
  std::span<const int> cache_ratios() const { return ratios_; }

 private:
  Forward(Device& device, Ops& ops, const ModelConfig& config, const Weights& weights,
          ForwardOptions options, Workspace workspace);

  Result<void> check(const StepInput& input) const;
  Result<void> prepare(const StepInput& input);
  void begin_step(const StepInput& input);
  void run_layer(const LayerWeights& w, int cache_layer);
  void attention(const LayerWeights& w);
  void compress(const CompressorWeights& w, int ratio, bool index_rows);
  void select_rows(const IndexerWeights& w);
  void moe(const MoeWeights& w);
  void run_head(std::span<const int64_t> rows, const HcWeights& hc, ConstTensor norm);
  Result<void> finish_step(const StepInput& input);

  Device& device_;
  Ops& ops_;
  const ModelConfig& config_;
  const Weights& weights_;
  ForwardOptions options_;
  Workspace workspace_;
  HcParams hc_params_;
  std::vector<int> ratios_;
  std::vector<float> rope_plain_freqs_;
  std::vector<float> rope_compress_freqs_;

  // Of the current step.
  int64_t n_rows_ = 0;
  StepTensors step_;
  HeadTensors head_;
  std::vector<KvSpan> spans_;
  std::vector<Token> tokens_;
  std::vector<int64_t> positions_;
  std::vector<const KvCache*> caches_;
};

}  // namespace ds4
