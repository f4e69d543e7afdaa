#pragma once
// Thinking mode and reasoning effort. Effort is a plain-text prefix right after BOS, in thinking
// mode only, and DeepSeek has published two generations of it that disagree: a checkpoint must be
// given the one it was trained with.
//
//   profile     low    high       max        checkpoints
//   preview     -      -          prefix A   the first V4 releases
//   official    -      prefix A   prefix B   V4-Flash-0731, V4-Pro-0813 and later
//
// The prefix stands at the first bytes of the prompt, so another effort shares no KV cache with
// this one: effort is part of a session's identity.
#include <optional>
#include <string_view>

#include "base/result.h"

namespace ds4 {

enum class ThinkingMode { kChat, kThinking };
enum class Effort { kLow, kHigh, kMax };
enum class EffortProfile { kPreview, kOfficial };

struct Thinking {
  ThinkingMode mode = ThinkingMode::kThinking;
  Effort effort = Effort::kLow;  // no meaning in chat mode

  bool operator==(const Thinking&) const = default;
};

// An API's effort name: none (chat mode), minimal, low, medium, high, xhigh, max, ultra.
// Errors: kInvalidArgument, with the names that exist.
Result<Thinking> parse_effort(std::string_view name);

// The prefix, which ends in a blank line; empty where the table above has none.
std::string_view effort_prefix(EffortProfile profile, Effort effort);

// What is known of a checkpoint when its profile is chosen.
struct EffortProfileHints {
  std::string_view metadata;       // the key our converter writes; empty when absent
  std::string_view model_name;     // general.name, or the file's name
  bool has_draft_tensors = false;  // DSpark draft tensors came with the later releases
};

// `option` is auto, preview or official. auto takes the metadata key; else official for draft
// tensors or a model name with a date (MMDD or YYYYMMDD) of 0731 or later; else preview. A date
// without a year cannot tell next January from this one. Errors: kInvalidArgument for another
// option, kCorrupt for metadata that names no profile.
Result<EffortProfile> select_effort_profile(std::string_view option,
                                            const EffortProfileHints& hints);

}  // namespace ds4
