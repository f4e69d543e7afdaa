#pragma once
// ds4 --imatrix-dataset: an importance matrix for ds4-quantize, from calibration prompts.
#include "base/result.h"
#include "model/model.h"
#include "options.h"
#include "tokenizer/tokenizer.h"

namespace ds4::cli {

// Runs the prompts of options.imatrix_dataset and writes options.imatrix_out; prints what was seen
// and which experts were not. Returns the exit code; interrupted, nothing is written. Errors: those
// of reading, Calibrator and Imatrix::write; kInvalidArgument for a data set without prompts.
Result<int> make_imatrix(Model model, const Tokenizer& tokenizer, const Options& options);

}  // namespace ds4::cli
