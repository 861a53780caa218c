// What tests of launchers submit.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "attune/model/run.h"

namespace attune::fakes {

// A launch of the one run r001 on two slots, with a minute.
inline LaunchSpec OneRun(Token token, std::vector<std::string> argv, std::string workdir) {
  LaunchSpec spec;
  spec.token = std::move(token);
  spec.slots = 2;
  spec.limit = Millis{60'000};
  Stage stage;
  stage.run = RunId("r001");
  stage.argv = std::move(argv);
  stage.workdir = std::move(workdir);
  spec.stages = {std::move(stage)};
  return spec;
}

// Arguments that a shell, an option parser, a record or an encoding on the way would change, and
// 100 kB of flags.
inline std::vector<std::string> HostileArguments() {
  std::vector<std::string> args = {"two words",
                                   "it's \"quoted\"",
                                   "$(touch pwned)`id`",
                                   "-n",
                                   "",
                                   "--",
                                   "gr\xc3\xbc\xc3\x9f"
                                   "e \xe2\x98\x83",
                                   "a\nb",
                                   "* ? [x] ~ !!",
                                   "\\",
                                   "\x01\xff"};
  for (int i = 0; i < 100; ++i) {
    args.push_back("--flag-" + std::to_string(i) + "=" + std::string(1'000, 'v'));
  }
  return args;
}

}  // namespace attune::fakes
