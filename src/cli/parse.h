// The command line as a whole: global flags anywhere, one command, help, and what to say of a
// mistake.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command.h"

namespace attune::cli {

struct Parsed {
  std::unique_ptr<Command> command;  // null: `code` is the answer already
  int code = 0;
};

// `words` without the program's name. Help and usage errors are printed to `terminal`.
Parsed ParseCommandLine(const std::vector<std::string>& words, GlobalFlags& flags,
                        Terminal& terminal);

// The help of a command, or of attune itself for "".
std::string HelpText(const std::string& command);
// Flags of a command ("" for the global ones), for completion.
std::vector<std::string> FlagNames(const std::string& command);
// Names of its subcommands or fixed words.
std::vector<std::string> SubcommandNames(const std::string& command);

}  // namespace attune::cli
