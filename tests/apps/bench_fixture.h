#pragma once
// ds4-bench as a program, for its tests.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/process.h"

namespace ds4::test {
namespace fs = std::filesystem;
using Json = nlohmann::json;

inline const std::string kHeader =
    "ctx_tokens,prefill_tokens,prefill_tps,gen_tokens,gen_tps,kvcache_bytes";
inline const std::string kExtended =
    kHeader + ",ttft_ms,gen_p50_ms,gen_p95_ms,batch,mtp_accept,power_w,mem_bytes";

inline std::string nano() { return std::string(DS4_BINARY_DIR) + "/nano/nano-q8_0.gguf"; }
inline std::string text() { return std::string(DS4_SOURCE_DIR) + "/models/nano/held_text.txt"; }

struct Outcome {
  int code = -1;
  std::string out, err;
};

inline Outcome run_bare(std::vector<std::string> args) {
  args.insert(args.begin(), DS4_BENCH_PROGRAM);
  Process process(args);
  Outcome outcome;
  outcome.code = process.wait();
  outcome.out = process.out();
  outcome.err = process.err();
  return outcome;
}

// On Nano with the text that belongs to it, one thread.
inline Outcome run(std::vector<std::string> more) {
  std::vector<std::string> args = {"-m", nano(), "--prompt-file", text(), "-t", "1"};
  args.insert(args.end(), more.begin(), more.end());
  return run_bare(args);
}

inline bool mentions(const std::string& whole, const std::string& part) {
  return whole.find(part) != std::string::npos;
}

inline std::vector<std::string> lines_of(const std::string& whole) {
  std::vector<std::string> lines;
  std::istringstream stream(whole);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

inline std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream stream(line + ",");
  for (std::string field; std::getline(stream, field, ',');) fields.push_back(field);
  return fields;
}

inline std::string read_file(const fs::path& path) {
  std::stringstream whole;
  whole << std::ifstream(path, std::ios::binary).rdbuf();
  return whole.str();
}

// A folder of its own, gone afterwards.
class Folder {
 public:
  Folder() {
    static int n = 0;
    path_ = fs::temp_directory_path() /
            ("ds4-bench-test-" + std::to_string(::getpid()) + "-" + std::to_string(++n));
    fs::create_directory(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

}  // namespace ds4::test
