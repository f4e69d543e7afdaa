#pragma once
// What ds4-bench writes: rows as CSV, the same as JSON, logits of a frontier.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sweep.h"

namespace ds4::bench {

// The columns of the program that this one follows; scripts read them by name and place.
inline constexpr std::string_view kCsvHeader =
    "ctx_tokens,prefill_tokens,prefill_tps,gen_tokens,gen_tps,kvcache_bytes";
inline constexpr std::string_view kExtendedColumns =
    "ttft_ms,gen_p50_ms,gen_p95_ms,batch,mtp_accept,power_w,mem_bytes";

std::string csv_header(bool extended);
// Without a newline; an unknown value is empty.
std::string csv_row(const Row& row, bool extended);

// {"header": ..., "complete": ..., "rows": [...]}: every column by its name, null where unknown.
// `complete`: the last frontier was measured.
std::string json_report(const nlohmann::ordered_json& header, std::span<const Row> rows,
                        bool complete);

// A file that the user named, opened before anything is measured: what cannot be written is said at
// once and not after an hour. Errors: kIo with the path and the system's reason.
class OutputFile {
 public:
  // Standard output for an empty path. An existing file is emptied by the first write.
  static Result<OutputFile> open(const std::string& path);

  // Appends and flushes.
  Result<void> write(std::string_view text);

 private:
  struct Close {
    void operator()(FILE* file) const {
      if (file != stdout) (void)std::fclose(file);
    }
  };
  std::string name_;
  std::unique_ptr<FILE, Close> file_;
  bool begun_ = false;
};

// One file a frontier: DIR/frontier_002048.logits.json with the facts and all logits, nine digits
// each, null where one is not finite.
struct LogitFacts {
  std::string model, backend;
  bool quality = false;
  int quant_bits = 0;
  int64_t frontier = 0, prefill_tokens = 0, ctx = 0;
};
Result<void> write_logits(const std::string& folder, const LogitFacts& facts,
                          std::span<const float> logits);

}  // namespace ds4::bench
