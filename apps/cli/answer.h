#pragma once
// The three things ds4 does with a model.
#include <csignal>

#include "base/result.h"
#include "model/model.h"
#include "options.h"
#include "tokenizer/tokenizer.h"

namespace ds4::cli {

// Answers `prompt` on standard output. Returns the exit code: 0, or 130 when `interrupted` was set.
Result<int> answer(Model model, const Tokenizer& tokenizer, const std::string& prompt,
                   const Options& options, const volatile std::sig_atomic_t& interrupted);

// A summary of the model and of the memory a session with `options` takes.
Result<void> inspect(const Model& model, const Options& options);

// One line a token: id, bytes of the text, piece.
void dump_tokens(const Tokenizer& tokenizer, const std::string& prompt);

}  // namespace ds4::cli
