#pragma once
// The commands of the REPL: one table from which both the parser and the help are made.
#include <string>
#include <string_view>

#include "base/result.h"

namespace ds4::cli {

enum class CommandId {
  kHelp,
  kThink,
  kThinkMax,
  kNoThink,
  kCtx,
  kRead,
  kStatus,
  kSystem,
  kReset,
  kQuit,
};

struct Command {
  CommandId id = CommandId::kHelp;
  std::string argument;  // without the white space around it; may be empty where that has a meaning
};

// `line` begins with a slash. Errors: kInvalidArgument for an unknown command, a missing argument
// or one too many, in words for the person who typed it.
Result<Command> parse_command(std::string_view line);

// One line a command.
std::string commands_help();

}  // namespace ds4::cli
