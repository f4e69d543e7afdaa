#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file_writer.h"
#include "base/mapped_file.h"
#include "ds4_version.h"
#include "program.h"

namespace ds4::evaluate {

using Json = nlohmann::ordered_json;

Result<std::string> read_file(const std::string& path) {
  constexpr int64_t kBytesMax = int64_t{256} << 20;
  DS4_TRY(const MappedFile file, MappedFile::open(path));
  const auto bytes = file.bytes();
  if (std::ssize(bytes) > kBytesMax) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}: expected at most {} bytes, found {}",
                                                         path, kBytesMax, bytes.size()));
  }
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<void> write_file(const std::string& path, std::string_view text) {
  DS4_TRY(FileWriter file, FileWriter::create(path, /*overwrite=*/true));
  DS4_TRY_VOID(file.write(std::as_bytes(std::span(text))));
  return file.commit();
}

void add_model_facts(eval::ReportFacts& facts, const std::string& key, const Model& model) {
  Json out;
  out["file"] = std::filesystem::path(model.file().path()).filename().string();
  out["name"] = model.general_name();
  out["bytes"] = model.file().file_bytes();
  Json& types = out["types"] = Json::array();
  for (const TensorTypeUse& use : model.tensor_types()) {
    types.push_back({{"type", use.type}, {"tensors", use.n_tensors}, {"bytes", use.bytes}});
  }
  facts.emplace_back(key, std::move(out));
}

void add_engine_facts(eval::ReportFacts& facts, const Options& o) {
  facts.emplace_back("program", fmt::format("ds4-eval {} ({})", kVersion, kCommit));
  facts.emplace_back("backend", std::string(backend_name(o.backend)));
  facts.emplace_back("profile", o.precision == Precision::hf32() ? "hf32" : "official");
}

Result<void> print(std::string_view text) {
  const std::string clean = without_controls(text);
  if (std::fwrite(clean.data(), 1, clean.size(), stdout) != clean.size() ||
      std::fflush(stdout) != 0) {
    return fail(ErrorCode::kIo,
                fmt::format("standard output: cannot write: {}", std::strerror(errno)));
  }
  return {};
}

int exit_code_of(const eval::Totals& totals, const Options& options) {
  int code = totals.all.errors > 0 ? app::kExitFailed : 0;
  if (options.min_pass && totals.all.passed < *options.min_pass) {
    app::print_error(fmt::format("ds4-eval: {} cases passed, --min-pass asks for {}\n",
                                 totals.all.passed, *options.min_pass));
    code = app::kExitFailed;
  }
  return code;
}

}  // namespace ds4::evaluate
