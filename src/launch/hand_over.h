// How arguments and environment reach the user's own launch script (Stage::script): in files, so
// that the script can give them to whatever it starts.
#pragma once

#include <string>
#include <vector>

#include "attune/base/result.h"
#include "attune/model/run.h"
#include "attune/os/process.h"

namespace attune::launch {

struct HandOver {
  std::vector<std::string> argv;  // what is started
  os::Environment env;            // names beside the stage's own
};

// Without a script: the stage's argv, no names. With one: leaves in `folder`, which exists,
//   script  its bytes, unchanged, to be executed
//   args    argv of the stage, one a line      (ATTUNE_ARGS_FILE)
//   env     NAME=VALUE of its env, one a line  (ATTUNE_ENV_FILE)
// and starts `script` without arguments. Error: a file can't be written.
Result<HandOver> HandOverTo(const Stage& stage, const std::string& folder);

// Why what the stage has can't stand in lines; empty: it can.
std::string WhyNotInLines(const Stage& stage);

}  // namespace attune::launch
