#pragma once
// Reads the config.json of an official checkpoint and holds it against the shapes this engine
// knows. A value that the engine would not honour stops the conversion here, where it can be named,
// and not in a model that answers strangely.
#include <string>

#include "base/result.h"
#include "model/config.h"

namespace ds4 {

// The config of Flash, Pro or Nano, whichever `folder`/config.json describes.
// Errors: kNotFound, kIo; kCorrupt for text that is not the expected JSON; kUnsupported naming the
// first field that differs from the nearest shape, found and expected, or a field with a meaning
// this engine lacks (scoring_func, norm_topk_prob, expert groups, tile size).
Result<ModelConfig> config_from_hf(const std::string& folder);

}  // namespace ds4
