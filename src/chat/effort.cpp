#include "chat/effort.h"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "chat/protocol.h"

namespace ds4 {
namespace {

std::optional<EffortProfile> profile_named(std::string_view name) {
  if (name == "preview") return EffortProfile::kPreview;
  if (name == "official") return EffortProfile::kOfficial;
  return std::nullopt;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// True when a run of exactly 4 (MMDD) or 8 (20YYMMDD) digits in `name` is a date of July 31 or
// later.
bool has_late_date(std::string_view name) {
  for (size_t pos = 0; pos < name.size();) {
    size_t end = pos;
    while (end < name.size() && is_digit(name[end])) ++end;
    std::string_view run = name.substr(pos, end - pos);
    pos = end + 1;
    if (run.size() == 8 && run.starts_with("20")) run.remove_prefix(4);
    if (run.size() != 4) continue;
    const int month = (run[0] - '0') * 10 + run[1] - '0';
    const int day = (run[2] - '0') * 10 + run[3] - '0';
    const bool is_date = month >= 1 && month <= 12 && day >= 1 && day <= 31;
    if (is_date && month * 100 + day >= 731) return true;
  }
  return false;
}

}  // namespace

Result<Thinking> parse_effort(std::string_view name) {
  static constexpr std::pair<std::string_view, Effort> kNames[] = {
      {"minimal", Effort::kLow}, {"low", Effort::kLow},    {"medium", Effort::kHigh},
      {"high", Effort::kHigh},   {"xhigh", Effort::kHigh}, {"max", Effort::kMax},
      {"ultra", Effort::kMax},
  };
  if (name == "none") return Thinking{ThinkingMode::kChat};
  for (const auto& [known, effort] : kNames) {
    if (name == known) return Thinking{ThinkingMode::kThinking, effort};
  }
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("reasoning effort: expected none, minimal, low, medium, high, xhigh, max or "
                  "ultra, found '{}'",
                  name));
}

std::string_view effort_prefix(EffortProfile profile, Effort effort) {
  const bool official = profile == EffortProfile::kOfficial;
  switch (effort) {
    case Effort::kLow:
      return {};
    case Effort::kHigh:
      return official ? protocol::kEffortPrefixA : std::string_view();
    case Effort::kMax:
      return official ? protocol::kEffortPrefixB : protocol::kEffortPrefixA;
  }
  return {};
}

Result<EffortProfile> select_effort_profile(std::string_view option,
                                            const EffortProfileHints& hints) {
  if (option != "auto") {
    if (const auto profile = profile_named(option)) return *profile;
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("effort profile: expected auto, preview or official, found '{}'", option));
  }
  if (!hints.metadata.empty()) {
    if (const auto profile = profile_named(hints.metadata)) return *profile;
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("effort profile in the model file: expected preview or official, found '{}'",
                    hints.metadata));
  }
  const bool late = hints.has_draft_tensors || has_late_date(hints.model_name);
  return late ? EffortProfile::kOfficial : EffortProfile::kPreview;
}

}  // namespace ds4
