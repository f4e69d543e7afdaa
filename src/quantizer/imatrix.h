#pragma once
// An importance matrix: for each weight tensor the mean square of every input column, which says
// how much an error in that column matters. Made by `ds4 --imatrix-dataset` or by llama.cpp's
// llama-imatrix, used by the encoders of Q4_K, Q2_K and IQ2_XXS.
//
// Two file forms, byte maps in docs/formats/quant.md:
//   .dat   flat means per tensor, one count for all of it; experts never seen are ones
//   GGUF   sums of squares and a count for each matrix of a stack
//
// Reading takes bytes from a stranger: every length is held against the file's size, values must be
// finite and not negative, names unique. Thread-safe when const.
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ds4 {

struct ImatrixEntry {
  // Mean squares, matrix after matrix: [n_matrices, columns]. Ones in a matrix never seen.
  std::vector<float> means;
  // How often each matrix was used, [n_matrices]; empty when the file cannot tell (.dat).
  std::vector<int64_t> counts;
};

class Imatrix {
 public:
  // A missing ".dat" trailer is accepted. Errors: those of opening; kCorrupt with the entry and the
  // byte for damaged or truncated bytes; kUnsupported for a GGUF file that is no importance matrix.
  static Result<Imatrix> read(const std::string& path);
  // The same over bytes in memory, named `name` in messages.
  static Result<Imatrix> parse(std::span<const std::byte> bytes, const std::string& name);

  // Writes GGUF when `path` ends in ".gguf", else .dat. Errors: those of FileWriter; kUnsupported
  // for GGUF when an entry has no counts; kInvalidArgument when the file exists (see overwrite).
  Result<void> write(const std::string& path, bool overwrite) const;

  // Adds what `other` saw, weighting by counts, or, where one of them has none, by n_chunks. A
  // value of exactly 1 is then taken for "never seen". Errors, with this unchanged:
  // kUnsupported when an entry has another length there.
  Result<void> merge(const Imatrix& other);

  // Means of matrix `matrix` of `n_matrices` with `columns` columns each, looked up under
  // "NAME.expert.M", "NAME.expert_M", then as a part of the stack NAME, then under `matrix_name`
  // (what the checkpoint calls this one matrix). Empty when there is no such entry. Errors:
  // kUnsupported for an entry of another length, expected and found.
  Result<std::span<const float>> find(std::string_view name, std::string_view matrix_name,
                                      int64_t matrix, int64_t n_matrices, int64_t columns) const;

  // False for a matrix that was never used: its means are all ones (or a count says so).
  static bool was_seen(std::span<const float> means);

  std::map<std::string, ImatrixEntry, std::less<>> entries;
  int64_t n_chunks = 0;    // prompts (ds4) or chunks (llama.cpp); 0: unknown
  int64_t chunk_size = 0;  // tokens of a chunk; 0: unknown or of any length
  std::vector<std::string> datasets;
};

}  // namespace ds4
