// What a state of Slurm means for a launch: the table of docs/slurm.md as pure functions. Slurm's
// word is a second opinion; where the wrapper left its exit record, that says how the job ended.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "attune/model/run.h"
#include "run_folder.h"
#include "slurm_text.h"

namespace attune::launch {

// Exit code of a wrapper that found its folder claimed by another start (wrapper_main.cc).
inline constexpr int kClaimedByOther = 3;

enum class SlurmPhase {
  kWaiting,  // in the queue: nothing is held
  kHolding,  // runs, or is about to
  kPaused,   // stopped by the scheduler; its memory and GPUs are still there
  kEnding,   // over for Slurm, but its processes may hold the GPUs
  kFinal,
  kStrange,  // a word that this version does not know: ask again
};
SlurmPhase PhaseOf(std::string_view state);

// A reason for waiting that no waiting ends. Sources: the job reason codes of squeue's manual.
bool IsHopeless(std::string_view reason);

struct FolderFacts {
  bool started = false;            // the wrapper's claim is there
  std::optional<ExitRecord> exit;  // of the attempt
  bool stop_asked = false;         // by us: `stop` lies in the attempt's folder
};

struct SlurmVerdict {
  std::optional<RunEnd> hint;  // unset: the wrapper's records say it all
  std::string detail;          // one line for people
  bool charged = true;
};
// Of a job in a final state, or one that was put back into the queue after it had run (`requeued`).
SlurmVerdict JudgeFinal(const SlurmJob& job, const FolderFacts& folder, bool requeued);
// Of a job that neither the queue nor the accounting knows any more.
SlurmVerdict JudgeVanished(const FolderFacts& folder);

}  // namespace attune::launch
