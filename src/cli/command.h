// What a command is. To add one: write cmd_NAME.cc with a class and a Make function, name the
// function in commands.h, give it a row in commands.cc and its source in CMakeLists.txt; then
// tests/cli/help-NAME.golden, and tests/cli/cli_test.cc tells what is missing.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "attune/base/result.h"
#include "exit_code.h"
#include "options.h"
#include "wire.h"

namespace attune::cli {

class Command {
 public:
  virtual ~Command() = default;
  // Adds this command's own options; global ones are there already. What they fill are members.
  virtual void Declare(Options& options) = 0;
  // The answer goes to wire.terminal().Out; the result is the exit code, or the error that main
  // prints (and that decides the exit code). Nothing is thrown.
  virtual Result<int> Run(Wire& wire) = 0;
};

struct CommandRow {
  std::string_view name;
  std::string_view summary;   // one line
  std::string_view synopsis;  // after the name: "RECIPE [--set K=V]..."
  std::string_view examples;  // lines "command  # what it does"
  std::string_view exits;     // codes besides 0, 1 and 2: "6 75"
  std::unique_ptr<Command> (*make)();
  bool hidden = false;
};

std::span<const CommandRow> Commands();
const CommandRow* FindCommand(std::string_view name);

}  // namespace attune::cli
