// The work of a Conversion: tensors are encoded in pieces on a thread pool.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/thread_pool.h"
#include "quant/codec.h"
#include "quantizer/converter.h"

namespace ds4 {
namespace {

// About how many values one piece of work has; small enough that a stop request is quick.
constexpr int64_t kValuesPerPiece = 1 << 20;

// A run of rows of one source, and where its bytes go within the tensor.
struct Piece {
  const HfMatrix* source = nullptr;
  int64_t first_row = 0;
  int64_t n_rows = 0;
  int64_t offset = 0;
  std::span<const float> importance;  // of the columns; empty: none was measured
};

// Experts stay whole, because the fallback importance is a sum over all rows of one.
std::vector<Piece> pieces_of(const PlannedTensor& tensor) {
  std::vector<Piece> pieces;
  int64_t offset = 0;
  for (size_t s = 0; s < tensor.sources.size(); ++s) {
    const HfMatrix& source = tensor.sources[s];
    const auto importance =
        tensor.importance.empty() ? std::span<const float>() : tensor.importance[s];
    const int64_t step = is_routed(tensor.spec.kind)
                             ? source.rows()
                             : std::max<int64_t>(1, kValuesPerPiece / source.cols());
    const int64_t bytes_each = row_bytes(tensor.type, source.cols());
    for (int64_t row = 0; row < source.rows(); row += step) {
      const int64_t n = std::min(step, source.rows() - row);
      pieces.push_back({&source, row, n, offset, importance});
      offset += n * bytes_each;
    }
  }
  return pieces;
}

// Buffers of one thread, grown once and used for every piece.
struct Scratch {
  std::vector<std::byte> encoded;
  std::vector<float> row;
  std::vector<float> importance;
};

// Weight of column c's error where no measured importance exists: the sum of its squared weights.
Result<void> fallback_importance(const HfMatrix& source, Scratch& scratch) {
  scratch.importance.assign(static_cast<size_t>(source.cols()), 0.0f);
  for (int64_t row = 0; row < source.rows(); ++row) {
    DS4_TRY_VOID(source.decode_row(row, scratch.row.data()));
    for (size_t c = 0; c < scratch.importance.size(); ++c) {
      scratch.importance[c] += scratch.row[c] * scratch.row[c];
    }
  }
  return {};
}

Result<void> encode_piece(const Piece& piece, DType type, int64_t n_experts, Scratch& scratch) {
  const HfMatrix& source = *piece.source;
  const int64_t bytes_each = row_bytes(type, source.cols());
  scratch.encoded.resize(static_cast<size_t>(piece.n_rows * bytes_each));
  scratch.row.resize(static_cast<size_t>(source.cols()));
  const float* importance = piece.importance.empty() ? nullptr : piece.importance.data();
  if (importance == nullptr && needs_importance(type)) {
    DS4_TRY_VOID(fallback_importance(source, scratch));
    importance = scratch.importance.data();
  }
  for (int64_t i = 0; i < piece.n_rows; ++i) {
    std::byte* dst = scratch.encoded.data() + i * bytes_each;
    if (source.is_ids()) {
      DS4_TRY_VOID(source.ids_row(piece.first_row + i, n_experts, reinterpret_cast<int32_t*>(dst)));
    } else {
      DS4_TRY_VOID(
          source.encode_row(piece.first_row + i, type, importance, scratch.row.data(), dst));
    }
  }
  return {};
}

// Where encoded bytes go: offset within the tensor, bytes. Called from several threads.
using Sink = std::function<Result<void>(int64_t offset, std::span<const std::byte> bytes)>;

Result<void> encode_tensor(const PlannedTensor& tensor, int64_t n_experts, ThreadPool& pool,
                           const std::stop_token& stop, const Sink& sink) {
  const std::vector<Piece> pieces = pieces_of(tensor);
  FirstError error;
  pool.parallel_for(static_cast<int64_t>(pieces.size()), [&](int64_t begin, int64_t end) {
    Scratch scratch;
    for (int64_t i = begin; i < end && !error.any(); ++i) {
      if (stop.stop_requested()) {
        return error.keep({ErrorCode::kCancelled, "interrupted; no file was written"});
      }
      const Piece& piece = pieces[static_cast<size_t>(i)];
      auto encoded = encode_piece(piece, tensor.type, n_experts, scratch);
      if (!encoded) return error.keep(std::move(encoded.error()));
      auto taken = sink(piece.offset, scratch.encoded);
      if (!taken) return error.keep(std::move(taken.error()));
    }
  });
  return error.result();
}

uint64_t fnv1a(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte b : bytes) hash = (hash ^ static_cast<uint64_t>(b)) * 0x100000001b3;
  return hash;
}

tl::unexpected<Error> no_tensor(const std::string& where, const std::string& name) {
  return fail(ErrorCode::kNotFound, fmt::format("{}: there is no tensor {}", where, name));
}

}  // namespace

Result<void> Conversion::run(const std::string& path, const RunOptions& options,
                             std::stop_token stop, ConvertProgress& progress) const {
  DS4_TRY(gguf::Writer writer, gguf::Writer::create(layout_, path, options.overwrite));
  ThreadPool pool(options.n_threads);
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const auto write = [&](int64_t offset, std::span<const std::byte> bytes) -> Result<void> {
      DS4_TRY_VOID(writer.write(static_cast<int>(i), offset, bytes));
      progress.bytes_done += std::ssize(bytes);
      return {};
    };
    DS4_TRY_VOID(encode_tensor(tensors_[i], config_.n_experts, pool, stop, write));
    ++progress.tensors_done;
  }
  return writer.finish();
}

Result<TensorComparison> Conversion::compare(const std::string& name, const gguf::File& other,
                                             int n_threads, std::stop_token stop) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                  [&](const PlannedTensor& t) { return t.spec.name == name; });
  if (found == tensors_.end()) return no_tensor("this conversion", name);
  const gguf::TensorInfo* info = other.find_tensor(name);
  if (info == nullptr) return no_tensor(other.path(), name);
  std::vector<std::byte> ours(
      static_cast<size_t>(layout_.tensor_bytes(static_cast<int>(found - tensors_.begin()))));
  ThreadPool pool(n_threads);
  const auto keep = [&](int64_t offset, std::span<const std::byte> bytes) -> Result<void> {
    std::copy(bytes.begin(), bytes.end(), ours.begin() + offset);
    return {};
  };
  DS4_TRY_VOID(encode_tensor(*found, config_.n_experts, pool, stop, keep));
  const std::span<const std::byte> theirs(info->data, static_cast<size_t>(info->bytes.value_or(0)));
  TensorComparison result{.our_bytes = std::ssize(ours),
                          .their_bytes = std::ssize(theirs),
                          .our_type = found->type,
                          .their_type = gguf::type_name(info->type_id),
                          .our_hash = fnv1a(ours),
                          .their_hash = fnv1a(theirs)};
  for (size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    if (ours[i] == theirs[i]) continue;
    if (result.n_different++ == 0) result.first_different = static_cast<int64_t>(i);
  }
  return result;
}

}  // namespace ds4
