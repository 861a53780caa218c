// attune: parses the command line, runs one command, prints its error, returns its exit code.
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "attune/base/text.h"
#include "exit_code.h"
#include "parse.h"
#include "terminal.h"
#include "version.h"
#include "wire.h"

namespace attune::cli {
namespace {

int Report(Terminal& terminal, const Error& error) {
  const int code = ExitCodeOf(error.code);
  terminal.Fail(KindOf(error.code), code, error.message, error.help);
  return code;
}

int Main(int argc, char** argv) {
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  Terminal terminal(STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO);
  // A reader that leaves (attune runs | head) must not end a campaign.
  std::signal(SIGPIPE, SIG_IGN);
  if (words.size() == 1 && words.front() == "--version") {
    terminal.Out(fmt::format("attune {}\n", kVersion));
    return kExitDone;
  }
  GlobalFlags flags;
  Parsed parsed = ParseCommandLine(words, flags, terminal);
  int code = parsed.code;
  if (parsed.command != nullptr) {
    if (!flags.folder.empty() && chdir(flags.folder.c_str()) != 0) {
      code = kExitUsage;
      terminal.Fail("invalid", code,
                    fmt::format("-C {}: {}", EscapeForDisplay(flags.folder), std::strerror(errno)),
                    "");
      return code;
    }
    Wire wire(terminal, flags);
    if (Status started = wire.Start(); !started) {
      return Report(terminal, started.error());
    }
    Result<int> result = parsed.command->Run(wire);
    code = result ? *result : Report(terminal, result.error());
  }
  if (terminal.OutFailed()) {
    terminal.Warn("the answer could not be written whole");
    return kExitFailure;
  }
  return code;
}

}  // namespace
}  // namespace attune::cli

int main(int argc, char** argv) {
  // Our code throws nothing; what a library throws (memory is out) must still leave in order.
  try {
    return attune::cli::Main(argc, argv);
  } catch (const std::exception& e) {
    std::fputs(("error: " + std::string(e.what()) + "\n").c_str(), stderr);
    return attune::cli::kExitFailure;
  }
}
