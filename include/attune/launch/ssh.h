// Jobs on other machines through the system's ssh, each under the same wrapper and run folder as on
// this one (docs/formats/run_folder.md). A job outlives the line and attune; what it wrote is
// fetched as it grows into a mirror of its run folder here.
//
// Contract beyond launcher.h:
//   Hosts are names of the user's ssh configuration and are asked nothing: keys, users, ports and
//   jump hosts stand there. A launch takes as many hosts as its stages have nodes, none of
//   `exclude`; with more hosts than that, launches take turns. Rank zero's host is MASTER_ADDR.
//   Submit: Bound once every host has claimed. Refused by the first host: nothing runs. Refused by
//   a later one: Bound, those that run are stopped, and Observe says never_started.
//   An Error means that nothing was started: kUnavailable (no connection within `patience`),
//   kDenied (ssh was refused, or a folder there), kFull (a disk there).
//   Submit unknown: the connection broke while the host was asked; Find settles it.
//   Observe: a lost line is no lost job: state kUnknown with what was known last, asked again with
//   growing pauses. Only when the limit and the margin have passed without an answer is the launch
//   over: end_hint node_failed, charged its full hold.
//   A host that fails ends the others of its launch.
//   Charge: slots x (exit - start) of each host's records; slots are shared out over the hosts.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attune/launch/launcher.h"
#include "attune/os/process.h"

namespace attune {

struct SshOptions {
  std::vector<std::string> hosts;
  std::string run_root;          // absolute, on the hosts; made when absent
  std::string mirror_root;       // absolute, here; likewise
  std::string wrapper;           // attune-wrapper of this build; empty: FindWrapper()
  std::vector<std::string> ssh;  // the program and options before ours; empty: ATTUNE_SSH or ssh
  std::string control_folder;    // for the control masters' sockets; empty: one is made
  Clock* clock = nullptr;        // must outlive the launcher
  os::ProcessRunner* runner = nullptr;  // likewise; null: a PosixProcessRunner of its own
  Millis poll{500};                     // shortest pause between two looks at a host
  Millis most_poll{5'000};              // and the longest while it answers
  Millis wait{2'000};                   // how long a host may wait for news before it answers
  Millis call_limit{30'000};            // of one call
  Millis connect{10'000};               // ConnectTimeout
  Millis pause{1'000};      // before a host that did not answer is asked again; doubled each time
  Millis patience{60'000};  // how long a submit, find or cancel tries to reach a host
  Millis release_margin{15'000};
  Millis give_up{60'000};  // after limit and margin, for a host that does not answer
  // Handed to the wrapper; tests shorten them.
  Millis grace{10'000};
  Millis beat{10'000};
  Millis stop_poll{100};
  std::int64_t log_cap = std::int64_t{1} << 30;
};

std::unique_ptr<Launcher> MakeSshLauncher(SshOptions options);

// What a host is like, for `doctor`. Errors as of Submit.
struct HostReport {
  std::string host;         // its name of itself
  std::string file_system;  // of run_root
  std::string program;      // where the command was found; empty: nowhere
  Millis clock_ahead{0};    // of this machine's clock; off by at most the call's time
  Millis answer_time{0};
  std::int64_t free_bytes = 0;
  int cores = 0;
  int jobs = 0;  // launches of any attune that run there
  double load = 0;
  int gpu_processes = -1;  // that nvidia-smi names; -1: there is none to ask
  bool root_writable = false, workdir_there = false;
};
// Copies attune-wrapper there when it is missing; changes nothing else.
Result<HostReport> ProbeHost(const SshOptions& options, const std::string& host,
                             const std::string& workdir, const std::string& program);

}  // namespace attune
