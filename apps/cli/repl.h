#pragma once
// The conversation at a terminal: `ds4> `, commands that begin with a slash, answers as they come.
#include "answer.h"

namespace ds4::cli {

// Runs until the person leaves or the program is asked to end. Returns the exit code. A typo, a
// message that does not fit or a failed answer never ends it; standard output that cannot be
// written and a broken device do.
Result<int> run_repl(Model model, const Tokenizer& tokenizer, const Options& options, Trace& trace);

}  // namespace ds4::cli
