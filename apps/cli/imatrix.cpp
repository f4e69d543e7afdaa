#include "imatrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "engine/calibrator.h"
#include "input.h"
#include "memory.h"
#include "quantizer/calibration_text.h"
#include "quantizer/imatrix.h"
#include "signals.h"
#include "terminal.h"

namespace ds4::cli {
namespace {

constexpr int kListedMax = 8;  // layers and experts named in the report

std::vector<float> means_of(const std::vector<double>& sums, const std::vector<int64_t>& counts) {
  const size_t columns = sums.size() / counts.size();
  std::vector<float> means;
  means.reserve(sums.size());
  for (size_t i = 0; i < sums.size(); ++i) {
    const int64_t n = counts[i / columns];
    means.push_back(n == 0 ? 1.0f : static_cast<float>(sums[i] / static_cast<double>(n)));
  }
  return means;
}

Imatrix to_imatrix(const Calibrator& calibrator) {
  Imatrix imatrix;
  const auto n_layers = static_cast<size_t>(calibrator.model().config().n_layers);
  for (size_t il = 0; il < calibrator.statistics().size(); ++il) {
    const ExpertStatistics& stats = calibrator.statistics()[il];
    const std::string prefix = il < n_layers ? fmt::format("blk.{}.", il) : "mtp.0.";
    const ImatrixEntry input{means_of(stats.gate_up, stats.counts), stats.counts};
    imatrix.entries[prefix + "ffn_gate_exps.weight"] = input;
    imatrix.entries[prefix + "ffn_up_exps.weight"] = input;
    imatrix.entries[prefix + "ffn_down_exps.weight"] = {means_of(stats.down, stats.counts),
                                                        stats.counts};
  }
  return imatrix;
}

// "12 of 2048 experts were never used: layer 3: 4 7; layer 5: 1"
std::string never_used(const Calibrator& calibrator) {
  int64_t n = 0, n_experts = 0, n_listed = 0;
  std::string list;
  for (size_t il = 0; il < calibrator.statistics().size(); ++il) {
    const auto& counts = calibrator.statistics()[il].counts;
    n_experts += static_cast<int64_t>(counts.size());
    if (std::find(counts.begin(), counts.end(), 0) == counts.end()) continue;
    std::string ids;
    for (size_t e = 0; e < counts.size(); ++e) {
      if (counts[e] != 0) continue;
      ++n;
      if (++n_listed <= kListedMax) ids += fmt::format(" {}", e);
    }
    if (ids.empty()) continue;
    list += fmt::format("{} layer {}:{}", list.empty() ? "" : ";", il, ids);
  }
  if (n == 0) return fmt::format("all {} experts were used\n", n_experts);
  return fmt::format("{} of {} experts were never used:{}{}; they count as all columns alike\n", n,
                     n_experts, list, n > kListedMax ? " and more" : "");
}

struct Work {
  std::vector<std::vector<Token>> prompts;
  int64_t n_tokens = 0;
};

// The prompts as tokens, as many as the limits and the context let through.
Result<Work> read_prompts(const Tokenizer& tokenizer, const Options& options) {
  DS4_TRY(const std::string text, read_input(options.imatrix_dataset));
  Work work;
  for (const std::string_view prompt : split_calibration_text(text)) {
    const auto n = static_cast<int64_t>(work.prompts.size());
    if (options.imatrix_max_prompts > 0 && n >= options.imatrix_max_prompts) break;
    std::vector<Token> tokens = tokenizer.encode_rendered(prompt);
    int64_t room = options.ctx_tokens;
    if (options.imatrix_max_tokens > 0) {
      room = std::min(room, options.imatrix_max_tokens - work.n_tokens);
    }
    if (room < 1) break;
    if (static_cast<int64_t>(tokens.size()) > room) tokens.resize(static_cast<size_t>(room));
    work.n_tokens += static_cast<int64_t>(tokens.size());
    work.prompts.push_back(std::move(tokens));
  }
  if (!work.prompts.empty()) return work;
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: expected prompts after lines that start with '{}', found none",
                          options.imatrix_dataset, kCalibrationMark));
}

// False when interrupted.
Result<bool> run_prompts(Calibrator& calibrator, const Work& work, const Options& options) {
  PrefillProgress progress(options.screen, "calibrating");
  int64_t finished = 0;
  for (const std::vector<Token>& prompt : work.prompts) {
    const auto added = calibrator.add(prompt, [&](int64_t done) {
      progress.update(finished + done, work.n_tokens);
      return !interrupted();
    });
    if (!added && added.error().code == ErrorCode::kCancelled) return false;
    if (!added) {
      progress.clear();
      return tl::unexpected(added.error());
    }
    finished += *added;
  }
  progress.clear();
  return true;
}

}  // namespace

Result<int> make_imatrix(Model model, const Tokenizer& tokenizer, const Options& options) {
  DS4_TRY(const Work work, read_prompts(tokenizer, options));
  DS4_TRY_VOID(check_memory_plan(model, options, 0));
  DS4_TRY(const auto calibrator,
          Calibrator::create(std::move(model), {.backend = options.backend,
                                                .n_threads = options.n_threads,
                                                .pin_threads = options.pin_threads,
                                                .precision = options.precision,
                                                .ctx_tokens = options.ctx_tokens,
                                                .chunk_tokens = options.prefill_chunk_tokens}));
  enter_phase(Phase::kWorking);
  const auto start = std::chrono::steady_clock::now();
  DS4_TRY(const bool finished, run_prompts(*calibrator, work, options));
  if (!finished) {
    print_error("\nds4: interrupted; no importance matrix was written\n");
    return kExitInterrupted;
  }
  const double seconds = seconds_since(start);
  Imatrix imatrix = to_imatrix(*calibrator);
  imatrix.n_chunks = static_cast<int64_t>(work.prompts.size());
  imatrix.datasets = {options.imatrix_dataset};
  DS4_TRY_VOID(imatrix.write(options.imatrix_out, /*overwrite=*/true));
  fmt::print("prompts={} tokens={} entries={} seconds={:.1f} tokens_per_second={:.1f}\n{}",
             work.prompts.size(), work.n_tokens, imatrix.entries.size(), seconds,
             static_cast<double>(work.n_tokens) / std::max(seconds, 1e-3), never_used(*calibrator));
  return 0;
}

}  // namespace ds4::cli
