#pragma once
// What a measurement was made with: without it a rate means nothing a month later.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/engine.h"
#include "model/model.h"
#include "options.h"

namespace ds4::bench {

// Tells model files apart: a hash of the header, the size, and 64 pieces of the tensors, so that a
// file of 100 GB costs 64 pages and not a reading. Not a proof that two files are equal.
std::string fingerprint(const Model& model);

// The linker's build id of this program, hexadecimal; empty when it has none.
std::string build_id();

// The header of --extended and --json: program, machine, model, and how it was run.
nlohmann::ordered_json run_facts(const Options& options, Engine& engine, int64_t prompt_tokens);

}  // namespace ds4::bench
