#include "output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "engine/sampler.h"

namespace ds4::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string two_decimals(std::optional<double> value) {
  return value ? fmt::format("{:.2f}", *value) : "";
}

tl::unexpected<Error> write_error(const std::string& name) {
  return fail(ErrorCode::kIo, fmt::format("{}: cannot write: {}", name, std::strerror(errno)));
}

Json optional_json(std::optional<double> value) { return value ? Json(*value) : Json(nullptr); }

Json row_json(const Row& row) {
  Json out;
  out["ctx_tokens"] = row.ctx_tokens;
  out["prefill_tokens"] = row.prefill_tokens;
  out["prefill_tps"] = row.prefill_tps;
  out["gen_tokens"] = row.gen_tokens;
  out["gen_tps"] = row.gen_tps;
  out["kvcache_bytes"] = row.kvcache_bytes;
  out["ttft_ms"] = row.ttft_ms;
  out["gen_p50_ms"] = optional_json(row.gen_p50_ms);
  out["gen_p95_ms"] = optional_json(row.gen_p95_ms);
  out["batch"] = row.batch;
  out["mtp_accept"] = optional_json(row.mtp_accept);
  out["power_w"] = optional_json(row.power_w);
  out["mem_bytes"] = row.mem_bytes ? Json(*row.mem_bytes) : Json(nullptr);
  return out;
}

}  // namespace

std::string csv_header(bool extended) {
  std::string line(kCsvHeader);
  if (extended) line += "," + std::string(kExtendedColumns);
  return line;
}

std::string csv_row(const Row& row, bool extended) {
  std::string line = fmt::format("{},{},{:.2f},{},{:.2f},{}", row.ctx_tokens, row.prefill_tokens,
                                 row.prefill_tps, row.gen_tokens, row.gen_tps, row.kvcache_bytes);
  if (extended) {
    line +=
        fmt::format(",{:.2f},{},{},{},{},{},{}", row.ttft_ms, two_decimals(row.gen_p50_ms),
                    two_decimals(row.gen_p95_ms), row.batch, two_decimals(row.mtp_accept),
                    two_decimals(row.power_w), row.mem_bytes ? std::to_string(*row.mem_bytes) : "");
  }
  return line;
}

std::string json_report(const Json& header, std::span<const Row> rows, bool complete) {
  Json report;
  report["header"] = header;
  report["complete"] = complete;
  Json& list = report["rows"] = Json::array();
  for (const Row& row : rows) list.push_back(row_json(row));
  return report.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<OutputFile> OutputFile::open(const std::string& path) {
  OutputFile out;
  out.name_ = path.empty() ? "standard output" : path;
  if (path.empty()) {
    out.begun_ = true;
    out.file_.reset(stdout);
    return out;
  }
  // Not emptied yet: a run that fails before its first row leaves the last one's results.
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  out.file_.reset(fd < 0 ? nullptr : ::fdopen(fd, "w"));
  if (out.file_ == nullptr) {
    return fail(ErrorCode::kIo, fmt::format("{}: cannot open: {}", path, std::strerror(errno)));
  }
  return out;
}

Result<void> OutputFile::write(std::string_view text) {
  if (!begun_) {
    begun_ = true;
    // Devices and pipes have no length to take back.
    struct stat info = {};
    const int fd = ::fileno(file_.get());
    if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && ::ftruncate(fd, 0) != 0) {
      return write_error(name_);
    }
  }
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size() ||
      std::fflush(file_.get()) != 0) {
    return write_error(name_);
  }
  return {};
}

Result<void> write_logits(const std::string& folder, const LogitFacts& facts,
                          std::span<const float> logits) {
  const Token best = argmax(logits);
  Json head;
  head["source"] = "ds4-bench";
  head["model"] = facts.model;
  head["backend"] = facts.backend;
  head["quality"] = facts.quality;
  head["quant_bits"] = facts.quant_bits;
  head["prompt_tokens"] = facts.frontier;
  head["frontier_tokens"] = facts.frontier;
  head["prefill_tokens"] = facts.prefill_tokens;
  head["ctx"] = facts.ctx;
  head["vocab"] = logits.size();
  head["argmax_id"] = best;
  std::string text = head.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.back() = ',';  // goes on
  const auto number = [](float x) { return std::isfinite(x) ? fmt::format("{:.9g}", x) : "null"; };
  text += "\"argmax_logit\":" + number(logits[static_cast<size_t>(best)]) + ",\n\"logits\":[";
  for (size_t i = 0; i < logits.size(); ++i) {
    text += i == 0 ? "\n" : i % 8 == 0 ? ",\n" : ",";
    text += number(logits[i]);
  }
  text += "\n]}\n";
  const std::string path = fmt::format("{}/frontier_{:06}.logits.json", folder, facts.frontier);
  DS4_TRY(OutputFile file, OutputFile::open(path));
  return file.write(text);
}

}  // namespace ds4::bench
