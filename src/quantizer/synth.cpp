#include "quantizer/synth.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/file_writer.h"
#include "base/thread_pool.h"
#include "quantizer/embedded_vocab.h"
#include "quantizer/metadata.h"

namespace ds4 {
namespace {

// About what one piece of work writes: it stays in a core's cache until the system has copied it.
constexpr int64_t kPieceBytes = 1 << 20;

// A run of rows of one tensor.
struct Piece {
  int tensor = 0;
  int64_t first_row = 0;
  int64_t n_rows = 0;
};

std::vector<Piece> pieces_of(const std::vector<SynthTensor>& tensors) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t n_rows = tensors[i].n_rows();
    const int64_t step = std::max<int64_t>(1, kPieceBytes / tensors[i].row_bytes());
    for (int64_t row = 0; row < n_rows; row += step) {
      pieces.push_back({static_cast<int>(i), row, std::min(step, n_rows - row)});
    }
  }
  return pieces;
}

// A disk that will not do is noticed before minutes of writing. Nothing when the system cannot say.
Result<void> check_space(const std::string& path, int64_t bytes) {
  std::error_code error;
  const auto folder = std::filesystem::absolute(path, error).parent_path();
  const auto space = std::filesystem::space(folder, error);
  if (error || static_cast<int64_t>(space.available) >= bytes) return {};
  return fail(ErrorCode::kIo, fmt::format("{}: {} bytes needed, {} free in {}", path, bytes,
                                          space.available, folder.string()));
}

std::optional<int64_t> layers_of(std::string_view text) {
  constexpr std::string_view kLayers = "LAYERS=";
  if (!text.starts_with(kLayers)) return std::nullopt;
  text.remove_prefix(kLayers.size());
  int64_t n = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), n);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return n;
}

}  // namespace

Result<ModelConfig> config_from_shape(std::string_view text) {
  const size_t colon = std::min(text.find(':'), text.size());
  const std::string_view name = text.substr(0, colon);
  const std::array<std::pair<std::string_view, const ModelConfig*>, 3> shapes{
      {{"flash", &flash_config()}, {"pro", &pro_config()}, {"nano", &nano_config()}}};
  for (const auto& [known, config] : shapes) {
    if (name != known) continue;
    if (colon == text.size()) return *config;
    const auto n = layers_of(text.substr(colon + 1));
    if (n && *n >= 1 && *n < config->n_layers) return slice_of(*config, *n);
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("shape: expected {}:LAYERS=1 .. {}, found {}", known,
                            config->n_layers - 1, text));
  }
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("shape: expected flash, pro or nano, whole or as in flash:LAYERS=4, found {}",
                  text));
}

Result<Synth> Synth::plan(const SynthOptions& options) {
  Synth synth(options);
  DS4_TRY(const VocabData vocab, embedded_vocab(options.config));
  gguf::Layout& layout = synth.layout_;
  add_metadata(layout, options.config, vocab, {.name_note = ", synthetic"});
  layout.add_u64(kSynthSeedKey, options.seed);
  layout.add_string(kSynthDataKey, options.sparse ? "none" : "random");
  layout.add_string("ds4.synth.routing", routing_name(options.routing));

  Weights names_only;
  Result<void> planned;
  visit_weights(options.config, names_only, [&](const TensorSpec& spec, ConstTensor&) {
    if (!planned) return;
    const auto type = planned_type(spec, /*source_is_f32=*/false, options.recipe,
                                   options.config.n_layers, options.overrides);
    if (!type) {
      planned = tl::unexpected<Error>(type.error());
      return;
    }
    layout.add_tensor(spec.name, *type, spec.shape);
    synth.tensors_.emplace_back(spec, *type, options.config, options.routing, options.seed);
  });
  DS4_TRY_VOID(std::move(planned));
  return synth;
}

Result<void> Synth::run(const std::string& path, const RunOptions& options, std::stop_token stop,
                        ConvertProgress& progress) const {
  if (options_.sparse) return run_sparse(path, options.overwrite);
  DS4_TRY(gguf::Writer writer, gguf::Writer::create(layout_, path, options.overwrite));
  DS4_TRY_VOID(check_space(path, layout_.file_bytes()));
  const std::vector<Piece> pieces = pieces_of(tensors_);
  ThreadPool pool(options.n_threads);
  FirstError error;
  std::atomic<size_t> next{0};
  // Each thread takes the next piece when it is done with one: the file grows from front to back.
  pool.parallel_for(pool.n_threads(), [&](int64_t, int64_t) {
    std::vector<std::byte> bytes;
    for (size_t i = next++; i < pieces.size() && !error.any(); i = next++) {
      if (stop.stop_requested()) {
        return error.keep({ErrorCode::kCancelled, "interrupted; no file was written"});
      }
      const Piece& piece = pieces[i];
      const SynthTensor& tensor = tensors_[static_cast<size_t>(piece.tensor)];
      bytes.resize(static_cast<size_t>(piece.n_rows * tensor.row_bytes()));
      tensor.fill(piece.first_row, piece.n_rows, bytes.data());
      auto written = writer.write(piece.tensor, piece.first_row * tensor.row_bytes(), bytes);
      if (!written) return error.keep(std::move(written.error()));
      progress.bytes_done += static_cast<int64_t>(bytes.size());
      progress.tensors_done = piece.tensor;
    }
  });
  DS4_TRY_VOID(error.result());
  progress.tensors_done = layout_.n_tensors();
  return writer.finish();
}

// The last byte alone makes the file as long as it must be.
Result<void> Synth::run_sparse(const std::string& path, bool overwrite) const {
  DS4_TRY(FileWriter file, FileWriter::create(path, overwrite));
  DS4_TRY_VOID(file.write(layout_.header()));
  const std::byte zero{0};
  DS4_TRY_VOID(file.write_at(layout_.file_bytes() - 1, {&zero, 1}));
  return file.commit();
}

}  // namespace ds4
