#include "facts.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/thread_pool.h"
#include "ds4_version.h"

namespace ds4::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string hexadecimal(std::span<const unsigned char> bytes) {
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

// The build id among the notes of one loaded object. `out` is a std::string.
int find_build_id(dl_phdr_info* info, size_t, void* out) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto* note = reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr);
    const char* const end = note + segment.p_memsz;
    while (note + sizeof(ElfW(Nhdr)) <= end) {
      ElfW(Nhdr) head;
      std::memcpy(&head, note, sizeof(head));
      const auto padded = [](size_t n) { return (n + 3) / 4 * 4; };
      const char* const name = note + sizeof(head);
      const char* const bytes = name + padded(head.n_namesz);
      if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 &&
          std::memcmp(name, "GNU", 4) == 0) {
        *static_cast<std::string*>(out) =
            hexadecimal({reinterpret_cast<const unsigned char*>(bytes), head.n_descsz});
        return 1;
      }
      note = bytes + padded(head.n_descsz);
    }
  }
  return 1;  // the program itself is the first object; the others do not matter
}

// The value of the first line "key : value" of /proc/cpuinfo.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "";
}

double load_average() {
  std::ifstream file("/proc/loadavg");
  double load = 0;
  file >> load;
  return load;
}

Json model_facts(const Model& model) {
  Json out;
  out["file"] = std::filesystem::path(model.file().path()).filename().string();
  out["name"] = model.general_name();
  out["bytes"] = model.file().file_bytes();
  out["fingerprint"] = fingerprint(model);
  Json& types = out["types"] = Json::array();
  for (const TensorTypeUse& use : model.tensor_types()) {
    types.push_back({{"type", use.type}, {"tensors", use.n_tensors}, {"bytes", use.bytes}});
  }
  return out;
}

Json flag_facts(const Options& o) {
  Json out;
  out["ctx_start"] = o.ctx_start;
  out["ctx_max"] = o.ctx_max;
  out["ctx_alloc"] = o.ctx_alloc;
  out["step_mul"] = o.step_mul;
  out["step_incr"] = o.step_incr;
  out["gen_tokens"] = o.gen_tokens;
  out["repeat"] = o.repeat;
  out["batch"] = o.batch;
  out["batch_offset"] = o.batch_offset;
  out["prefill_chunk"] = o.prefill_chunk_tokens;
  out["quality"] = o.quality;
  out["warm_weights"] = o.warm_weights;
  return out;
}

}  // namespace

std::string fingerprint(const Model& model) {
  constexpr int64_t kPieces = 64, kPieceBytes = 4096;
  const gguf::File& file = model.file();
  const int64_t size = file.file_bytes(), start = file.data_start();
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       XXH3_freeState);
  if (state == nullptr || file.tensors().empty()) return "";
  const std::byte* const bytes = file.tensors().front().data - file.tensors().front().offset;
  XXH3_128bits_reset(state.get());
  XXH3_128bits_update(state.get(), &size, sizeof(size));
  XXH3_128bits_update(state.get(), bytes, static_cast<size_t>(start));
  const int64_t last = std::max(start, size - kPieceBytes);
  for (int64_t i = 0; i < kPieces; ++i) {
    const int64_t at = start + (last - start) / (kPieces - 1) * i;
    const int64_t n = std::min(kPieceBytes, size - at);
    XXH3_128bits_update(state.get(), bytes + at, static_cast<size_t>(n));
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string build_id() {
  std::string id;
  dl_iterate_phdr(find_build_id, &id);
  return id;
}

Json run_facts(const Options& o, Engine& engine, int64_t prompt_tokens) {
  Json out;
  out["program"] = fmt::format("ds4-bench {}", kVersion);
  out["commit"] = kCommit;
  out["build_id"] = build_id();
  out["started_unix"] = std::chrono::duration_cast<std::chrono::seconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count();
  out["backend"] = std::string(backend_name(o.backend));
  out["device"] = engine.device().description();
  out["processor"] = processor_name();
  out["processors"] = available_processors();
  out["threads"] = o.n_threads < 1 ? available_processors() : o.n_threads;
  out["load_average"] = load_average();
  out["profile"] = o.precision == Precision::hf32() ? "hf32" : "official";
  out["model"] = model_facts(engine.model());
  const std::string& prompt = o.prompt_file.empty() ? o.chat_prompt_file : o.prompt_file;
  out["prompt"] = {{"file", std::filesystem::path(prompt).filename().string()},
                   {"chat", o.prompt_file.empty()},
                   {"tokens", prompt_tokens}};
  out["flags"] = flag_facts(o);
  return out;
}

}  // namespace ds4::bench
