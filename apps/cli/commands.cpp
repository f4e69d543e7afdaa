#include "commands.h"

#include <fmt/format.h>

namespace ds4::cli {
namespace {

enum class Argument { kNone, kOptional, kNeeded };

struct Entry {
  CommandId id;
  std::string_view name;
  Argument takes;
  std::string_view argument;
  std::string_view help;
};

constexpr Entry kCommands[] = {
    {CommandId::kHelp, "/help", Argument::kNone, "", "this list"},
    {CommandId::kThink, "/think", Argument::kNone, "", "reason before answering"},
    {CommandId::kThinkMax, "/think-max", Argument::kNone, "", "reason at the highest effort"},
    {CommandId::kNoThink, "/nothink", Argument::kNone, "", "answer at once"},
    {CommandId::kCtx, "/ctx", Argument::kNeeded, "N",
     "a context of N tokens; the conversation is lost"},
    {CommandId::kRead, "/read", Argument::kNeeded, "FILE",
     "send a file's text as the next message"},
    {CommandId::kStatus, "/status", Argument::kNone, "", "model, mode, tokens, rates, memory"},
    {CommandId::kSystem, "/system", Argument::kOptional, "TEXT",
     "another system text (none: no text); a new conversation"},
    {CommandId::kReset, "/reset", Argument::kNone, "", "a new conversation"},
    {CommandId::kQuit, "/quit", Argument::kNone, "", "leave; also Ctrl-D"},
    {CommandId::kQuit, "/exit", Argument::kNone, "", "the same"},
};

constexpr std::string_view kKeys =
    "A line that ends in \\ goes on in the next one. A space in front sends text that begins with "
    "/.\n"
    "Ctrl-C clears the line, or stops the answer and keeps what was said; Ctrl-R searches the "
    "history.\n";

constexpr std::string_view kBlank = " \t\n";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

}  // namespace

Result<Command> parse_command(std::string_view line) {
  const std::string_view name = line.substr(0, line.find_first_of(kBlank));
  const std::string_view argument = trimmed(line.substr(name.size()));
  for (const Entry& entry : kCommands) {
    if (entry.name != name) continue;
    if (entry.takes == Argument::kNone && !argument.empty()) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} takes nothing, found '{}'; nothing was done", name, argument));
    }
    if (entry.takes == Argument::kNeeded && argument.empty()) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: expected {} {}", name, name, entry.argument));
    }
    return Command{entry.id, std::string(argument)};
  }
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("unknown command '{}'; it was not sent", name));
}

std::string commands_help() {
  std::string text;
  for (const Entry& entry : kCommands) {
    text +=
        fmt::format("  {:<14} {}\n", fmt::format("{} {}", entry.name, entry.argument), entry.help);
  }
  text += kKeys;
  return text;
}

}  // namespace ds4::cli
