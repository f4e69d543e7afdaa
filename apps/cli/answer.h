#pragma once
// What ds4 does with a model: answer one prompt, hold a conversation (repl.h), show numbers
// (dump.h) or say what the file is.
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "chat/conversation.h"
#include "chat/effort.h"
#include "engine/engine.h"
#include "model/model.h"
#include "options.h"
#include "tokenizer/tokenizer.h"
#include "trace.h"

namespace ds4::cli {

// The engine for one session, as `options` ask, within the memory there is. Keeps no snapshots
// unless told to. Errors: those of check_memory_plan and Engine::create.
Result<std::unique_ptr<Engine>> make_engine(Model model, const Options& options,
                                            SnapshotOptions snapshots = {.bytes_max = 0});

// The time of each operation so far, on standard error, when --profile-ops asked for it.
void print_profile(const Engine& engine);

// The effort profile of a checkpoint. Errors: those of select_effort_profile.
Result<EffortProfile> effort_profile_of(const Model& model, const Options& options);

// Answers `prompt` on standard output, or writes the numbers that options.mode asks for. Returns
// the exit code: 0, or 130 when interrupted.
Result<int> answer(Model model, const Tokenizer& tokenizer, const std::string& prompt,
                   const Options& options, Trace& trace);

// A summary of the model and of the memory a session with `options` takes.
Result<void> inspect(const Model& model, const Options& options);

}  // namespace ds4::cli
