// Jobs on this machine, through the wrapper and the run folder (docs/formats/run_folder.md). A job
// outlives attune: a fresh launcher over the same root adopts it, its log from byte 0.
//
// Contract beyond launcher.h:
//   Submit: an Error means that nothing was started and this machine is at fault (kFull, kDenied,
//   kNotFound: no wrapper). Idempotent by token: the second submit returns the first one's handle.
//   Observe: real time; returns when there is a state nobody here has seen, when `steps` lines are
//   new or one that is a second old, at `until`, or when a signal interrupted the wait. At most
//   4 MiB of log a run and call: a launch is kEnded only when all of it was handed out.
//   Charge: slots x (exit - start) of the attempt's records. Without an exit record: up to the last
//   beat or log growth, whichever is later, plus one beat, or up to the moment when the last
//   process carrying the token was ended, if any had lived on (control_plane.md section 2).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "attune/launch/launcher.h"
#include "attune/os/process.h"

namespace attune {

struct LocalOptions {
  std::string run_root;                 // absolute; made when absent
  std::string wrapper;                  // path of attune-wrapper; empty: FindWrapper()
  Clock* clock = nullptr;               // must outlive the launcher
  os::ProcessRunner* runner = nullptr;  // likewise; null: a PosixProcessRunner of its own
  Millis poll{50};                      // between two looks while waiting
  Millis submit_timeout{20'000};
  // From the limit to the last moment the slots are held: the wrapper's grace, what it waits after
  // KILL, its records (control_plane.md section 2). Past it the launcher ends the job itself.
  Millis release_margin{15'000};
  // What the node gives every job. Unset: NodeEnvironment(OwnEnvironment()).
  std::optional<os::Environment> node_environment;
  // Handed to the wrapper; tests shorten them.
  Millis grace{10'000};
  Millis beat{10'000};
  Millis stop_poll{100};
  std::int64_t log_cap = std::int64_t{1} << 30;
};

std::unique_ptr<Launcher> MakeLocalLauncher(LocalOptions options);

// ATTUNE_WRAPPER, else attune-wrapper beside this program, else in ../libexec/attune or ../bin.
Result<std::string> FindWrapper();

}  // namespace attune
