#pragma once
// Writing GGUF in two steps. A Layout collects metadata and tensors and plans every byte: because
// sizes follow from types and shapes, offsets are known before any tensor is computed. A Writer
// then takes tensor data in any order and piecewise, and the file appears under its name only when
// complete.
//
//   Layout layout;
//   layout.add_string("general.architecture", "deepseek4");
//   const int embd = layout.add_tensor("token_embd.weight", DType::kF16, {vocab, hidden});
//   DS4_TRY(auto writer, Writer::create(layout, "out.gguf", /*overwrite=*/false));
//   DS4_TRY_VOID(writer.write(embd, 0, bytes));
//   DS4_TRY_VOID(writer.finish());
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_writer.h"
#include "base/result.h"
#include "gguf/format.h"
#include "tensor/tensor.h"

namespace ds4::gguf {

// Single-thread while it is filled. Keys and names must be unique (checked when added).
class Layout {
 public:
  explicit Layout(int64_t alignment = kDefaultAlignment);

  void add_u32(std::string_view key, uint32_t value);
  void add_u64(std::string_view key, uint64_t value);
  void add_f32(std::string_view key, float value);
  void add_bool(std::string_view key, bool value);
  void add_string(std::string_view key, std::string_view value);
  void add_i32s(std::string_view key, std::span<const int32_t> values);
  void add_f32s(std::string_view key, std::span<const float> values);
  void add_strings(std::string_view key, std::span<const std::string> values);
  // A value copied from another file: `payload` as Value::payload() gives it.
  void add_value(std::string_view key, ValueType type, std::span<const std::byte> payload);

  // `shape` is outermost first, as in a Tensor; the file stores it reversed. Returns the tensor's
  // number. Row length must be a multiple of the type's block (checked).
  int add_tensor(std::string_view name, DType type, const Shape& shape);

  int n_tensors() const { return static_cast<int>(tensors_.size()); }
  const std::string& tensor_name(int tensor) const;
  DType tensor_type(int tensor) const;
  int64_t tensor_bytes(int tensor) const;
  // Of all tensors, without padding.
  int64_t tensor_bytes() const;
  // From the start of the file; valid once everything is added, as are the following.
  int64_t tensor_offset(int tensor) const;
  int64_t data_start() const;
  int64_t file_bytes() const;
  // Header, metadata, directory and the zeros up to data_start().
  std::vector<std::byte> header() const;

 private:
  friend class Writer;
  struct Entry {
    std::string name;
    DType type = DType::kF32;
    Shape shape;
    int64_t bytes = 0;
    int64_t offset = 0;  // relative to data_start()
  };
  void begin_key(std::string_view key, ValueType type);
  int64_t padded(int64_t n) const { return n + (alignment_ - n % alignment_) % alignment_; }

  int64_t alignment_;
  std::vector<std::string> keys_;
  std::vector<std::byte> metadata_;
  std::vector<Entry> tensors_;
  int64_t directory_bytes_ = 0;
  int64_t data_bytes_ = 0;
};

// Thread-safe in write(), which may be called from several threads for disjoint ranges; the rest is
// single-thread. Destroyed before finish(), it leaves nothing behind.
class Writer {
 public:
  // Errors: those of FileWriter::create and its writes.
  static Result<Writer> create(Layout layout, const std::string& path, bool overwrite);

  // Bytes of `tensor` from `offset` within it; must lie inside the tensor (checked). Errors: kIo.
  Result<void> write(int tensor, int64_t offset, std::span<const std::byte> bytes);

  // Pads the last tensor, syncs and renames. Every tensor must have received all its bytes (checked
  // by count). Errors: kIo; the unfinished file is removed.
  Result<void> finish();

  const Layout& layout() const { return layout_; }

  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) noexcept;
  ~Writer();

 private:
  struct Progress;
  Writer(Layout layout, FileWriter file);

  Layout layout_;
  FileWriter file_;
  std::unique_ptr<Progress> progress_;
};

}  // namespace ds4::gguf
