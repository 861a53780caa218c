#include "unit/launch/loop_ssh.h"

#include <algorithm>

namespace attune {
namespace {

os::CommandResult Said(int code, std::string err) {
  os::CommandResult r;
  r.exit_code = code;
  r.err = std::move(err);
  return r;
}

}  // namespace

Result<os::CommandResult> LoopSsh::Run(const os::Command& command) {
  const auto dashes = std::find(command.argv.begin(), command.argv.end(), "--");
  const std::vector<std::string> words(dashes == command.argv.end() ? dashes : dashes + 1,
                                       command.argv.end());
  const auto has = [&](const char* word) {
    return std::find(command.argv.begin(), dashes, word) != dashes;
  };
  if (has("-O")) {
    return Said(0, "Master running (pid=1)\r\n");
  }
  if (has("-G")) {
    os::CommandResult r;
    r.out = "user me\nhostname " + words.at(0) + ".example\nport 22\n";
    return r;
  }
  const std::string& host = words.at(0);
  Line line = down.contains(host) ? Line::kRefused : Line::kGood;
  if (line == Line::kGood && !next.empty()) {
    line = next.front();
    next.pop_front();
  }
  switch (line) {
    case Line::kRefused:
      return Said(255, "ssh: connect to host " + host + " port 22: Connection refused\r\n");
    case Line::kDenied:
      return Said(255, "me@" + host + ": Permission denied (publickey).\r\n");
    case Line::kNoSuchName:
      return Said(255,
                  "ssh: Could not resolve hostname " + host + ": Name or service not known\r\n");
    case Line::kSilent:
      return Fail(ErrorCode::kTimeout, "ssh did not end in time");
    case Line::kGood:
    case Line::kAnswerLost:
    case Line::kAnswerCut:
      break;
  }
  ++calls[host];
  remote_commands.push_back(words.at(1));
  os::Command there = command;
  there.argv = {"/bin/sh", "-c", words.at(1)};
  there.env = os::Environment{{"HOME", home_}, {"PATH", path}};
  there.workdir = home_;
  auto result = real_.Run(there);
  if (line == Line::kAnswerLost) {
    return Said(255, "client_loop: send disconnect: Broken pipe\r\n");
  }
  if (result && line == Line::kAnswerCut) {
    result->out.resize(result->out.size() / 2);
  }
  return result;
}

}  // namespace attune
