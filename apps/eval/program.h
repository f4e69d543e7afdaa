#pragma once
// What ds4-eval does, one function a mode. Each prints its results and returns the exit code;
// errors are what kept it from doing so.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "eval/case.h"
#include "eval/report.h"
#include "model/model.h"
#include "options.h"

namespace ds4::evaluate {

// A run of cases (run.cpp).
Result<int> run_cases(const Options& options);

// Without a model (offline.cpp).
Result<int> list_cases(const Options& options);
// Writes the cases with their expected answers as rendered chats.
Result<int> render_cases(const Options& options);
int self_test_extractors();
Result<int> regrade(const Options& options);
Result<int> compare(const Options& options);
Result<int> compare_scores(const Options& options);

// Texts and continuations (score.cpp).
Result<int> score_text(const Options& options);
Result<int> score_continuations(const Options& options);

// The cases that the options choose. Errors: those of load_cases; kInvalidArgument for a sequence
// or a source that names none.
Result<std::vector<eval::Case>> chosen_cases(const Options& options);

// Shared by the above (files.cpp).

// All of a regular file, at most 256 MiB. Errors: those of MappedFile::open.
Result<std::string> read_file(const std::string& path);
// Through a temporary name, so that the file is whole or as it was. Errors: those of FileWriter.
Result<void> write_file(const std::string& path, std::string_view text);
// What a report says of a model and of how it was run.
void add_model_facts(eval::ReportFacts& facts, const std::string& key, const Model& model);
void add_engine_facts(eval::ReportFacts& facts, const Options& options);
// On standard output, without control characters. Errors: kIo.
Result<void> print(std::string_view text);
// 0, or 1 for errors among the outcomes or fewer passed than --min-pass, which it says.
int exit_code_of(const eval::Totals& totals, const Options& options);

}  // namespace ds4::evaluate
