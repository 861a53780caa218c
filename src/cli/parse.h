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
// For completion: a flag with all its names, long ones last.
struct FlagShape {
  std::vector<std::string> names;
  bool takes_value = false;
  std::vector<std::string> words;  // that its value may be, where they are known
};
// Of a command, its subcommand ("": none), and the global ones; of "" those alone.
std::vector<FlagShape> FlagShapes(const std::string& command, const std::string& sub);
// Names of its subcommands or fixed words.
std::vector<std::string> SubcommandNames(const std::string& command);

}  // namespace attune::cli
