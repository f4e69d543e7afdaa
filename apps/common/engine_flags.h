#pragma once
// The flags of the engine that programs have in common, and what follows from them.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "backend/backend.h"
#include "base/result.h"
#include "common/memory_check.h"
#include "engine/engine.h"
#include "engine/memory_plan.h"
#include "model/model.h"
#include "ops/precision.h"

namespace ds4::app {

struct EngineFlags {
  BackendKind backend = BackendKind::kCpu;
  int n_threads = 0;
  bool pin_threads = false;
  Precision precision;
  int64_t prefill_chunk_tokens = 512;
  int64_t repack_bytes_max = int64_t{4} << 30;  // for copies of weights in a faster form
  MemoryLimit mem_limit;
  bool verbose = false;
};

// Those that need more than a conversion, as they were typed.
struct EngineFlagText {
  std::string backend = "cpu", profile = "official", repack = "4G", mem_limit;
  bool cpu = false;
};

// Adds --backend, --cpu, --threads, --pin-threads, --profile, --prefill-chunk, --repack,
// --mem-limit and --verbose under the heading `group`. Both structs must outlive the parsing.
void add_engine_flags(CLI::App& app, EngineFlags& flags, EngineFlagText& text, const char* group);

// Fills in what `text` says, after the parsing. Errors: kInvalidArgument, naming the flag.
Result<void> read_engine_flags(EngineFlags& flags, const EngineFlagText& text, const CLI::App& app);

// The part of a memory plan that the model and these flags decide: weights, backend, precision,
// rows of a step, and copies of weights up to --repack. Sessions and contexts are the caller's.
MemoryPlanInput plan_input(const Model& model, const EngineFlags& flags);

// The part of the engine's options that these flags and the granted plan decide.
EngineOptions engine_options(const EngineFlags& flags, const GrantedMemory& granted);

}  // namespace ds4::app
