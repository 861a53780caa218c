// Commands on other machines through the system's ssh, as the user's own configuration names them:
// jump hosts, keys and users are ssh's affair.
//
// One control master a host and process carries the connections and is bounded: it ends with this
// process, or after a minute without a connection when that died. Every call has a time limit of
// its own, because ConnectTimeout bounds no call that goes through a master (launchers.md section
// 5).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "attune/base/result.h"
#include "attune/os/process.h"

namespace attune::launch {

struct SshTransportOptions {
  // The program, then options before ours. Default: FindSsh().
  std::vector<std::string> ssh;
  std::string wrapper;         // attune-wrapper of this build; copied to each host once
  std::string control_folder;  // short, private; empty: one is made
  Millis connect{10'000};      // ConnectTimeout
  Millis check{2'000};         // for an answer of the master itself
};

// ATTUNE_SSH, a program that takes ssh's place, else "ssh".
std::string FindSsh();

class SshTransport {
 public:
  // `runner` must outlive this.
  SshTransport(SshTransportOptions options, os::ProcessRunner& runner);
  ~SshTransport();
  SshTransport(const SshTransport&) = delete;
  SshTransport& operator=(const SshTransport&) = delete;

  // Runs attune-wrapper with these words on the host, after copying it there when it is missing.
  // The call is repeated once on a fresh connection when the first one gave no answer within
  // `limit`, unless `once` says that a second one would do more than the first.
  // kUnavailable: no connection, or it broke: the command may have run or not. kTimeout: the same,
  // no answer in time. kDenied: ssh refused us, nothing ran. kNotFound: there is no host of that
  // name, and none was met before. kInvalidInput: the host can't execute the wrapper.
  Result<os::CommandResult> CallWrapper(const std::string& host,
                                        const std::vector<std::string>& words,
                                        const std::string& input, Millis limit,
                                        bool interruptible = false, bool once = false);
  // Runs any program with its arguments, each quoted for the login shell. Otherwise the same.
  Result<os::CommandResult> Call(const std::string& host, const std::vector<std::string>& argv,
                                 const std::string& input, Millis limit,
                                 bool interruptible = false);
  // Copies the wrapper unless a file with exactly its content is there. Nothing of a job runs yet:
  // an error here is certain.
  Status EnsureWrapper(const std::string& host);
  // The name or address behind a host of the user's configuration (ssh -G), as other nodes may know
  // it.
  std::string AddressOf(const std::string& host);
  // Whether the last call ended because this process was signalled.
  bool interrupted() const { return interrupted_; }

 private:
  struct Master {
    int generation = 0;  // of its socket's name: a stuck one is left behind
    std::optional<os::ProcessId> process;
    bool used = false;  // the host has answered
  };

  std::vector<std::string> BaseWords(const std::string& control_path) const;
  std::string ControlPath(const Master& master);
  Result<os::CommandResult> Once(const std::string& host, const std::string& control_path,
                                 const std::string& remote, const std::string& input, Millis limit,
                                 bool interruptible);
  Result<os::CommandResult> CallShell(const std::string& host, const std::string& remote,
                                      const std::string& input, Millis limit, bool interruptible,
                                      bool once = false);
  std::optional<std::string> AskMaster(const std::string& host, const Master& master,
                                       const std::string& word);
  void Meet(const std::string& host, Master& master);
  void Abandon(Master& master);

  SshTransportOptions o_;
  os::ProcessRunner& runner_;
  os::Environment env_;
  std::map<std::string, Master> masters_;
  std::set<std::string> ready_;  // hosts that have the wrapper
  std::string wrapper_hash_, wrapper_bytes_, control_folder_;
  bool interrupted_ = false;
};

}  // namespace attune::launch
