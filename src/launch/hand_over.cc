#include "hand_over.h"

#include <string.h>
#include <sys/stat.h>

#include <cerrno>

#include "attune/os/files.h"

namespace attune::launch {
namespace {

bool IsOneLine(std::string_view s) { return s.find('\n') == std::string_view::npos; }

}  // namespace

std::string WhyNotInLines(const Stage& stage) {
  for (const std::string& argument : stage.argv) {
    if (!IsOneLine(argument)) return "an argument for its launch script holds a newline";
  }
  for (const auto& [name, value] : stage.env) {
    if (!IsOneLine(name) || !IsOneLine(value)) {
      return "a value in the environment for its launch script holds a newline";
    }
  }
  return {};
}

Result<HandOver> HandOverTo(const Stage& stage, const std::string& folder) {
  if (stage.script.empty()) return HandOver{stage.argv, {}};
  const std::string script = folder + "/script", args = folder + "/args", env = folder + "/env";
  std::string arguments, environment;
  for (const std::string& argument : stage.argv) arguments += argument + "\n";
  for (const auto& [name, value] : stage.env) environment += name + "=" + value + "\n";
  ATTUNE_RETURN_IF_ERROR(os::WriteFileAtomic(args, arguments));
  ATTUNE_RETURN_IF_ERROR(os::WriteFileAtomic(env, environment));
  ATTUNE_RETURN_IF_ERROR(os::WriteFileAtomic(script, stage.script));
  if (chmod(script.c_str(), 0700) != 0) {
    return Fail(ErrorCode::kUnavailable, "making " + script + " executable: " + strerror(errno));
  }
  return HandOver{{script}, {{"ATTUNE_ARGS_FILE", args}, {"ATTUNE_ENV_FILE", env}}};
}

}  // namespace attune::launch
