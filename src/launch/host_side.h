// What a launcher does on the machine where the job runs: claims are found, jobs that nobody else
// ends are ended, stops are asked for. Used by the local launcher, and by `attune-wrapper serve` on
// behalf of a launcher elsewhere.
#pragma once

#include <optional>
#include <string>

#include "attune/base/clock.h"
#include "attune/base/result.h"
#include "attune/model/run.h"
#include "run_folder.h"

namespace attune::launch {

// The launch of that token in `root`. nullopt: certainly not there; a submit that is going on is
// waited for, then kUnavailable.
Result<std::optional<StartRecord>> FindClaim(const std::string& root, const Token& token);

// Reads ROOT/TOKEN/plan. kNotFound: none there; kCorrupt, kNewerFormat: not this attune's.
Result<Plan> ReadPlan(const std::string& root, const Token& token);

// In a launch's folder: it was handed to a scheduler, or is about to be.
inline constexpr const char* kSubmitMark = "submitted";

// What a job of a scheduler will find: ROOT/TOKEN with its plan, its batch script and the mark,
// before anybody could start it. True: it was not marked before, so no job of it can exist.
// kInvalidInput: a marked launch has another plan under the same token.
struct BatchFiles {
  Token token;
  std::string plan, script;
};
Result<bool> PlaceBatch(const std::string& root, const BatchFiles& files, Clock& clock);
// attune-wrapper beside the run folders, named by its content: an upgrade of attune does not change
// what a job in the queue will start. `bytes`: the program.
inline constexpr std::int64_t kMaxWrapperBytes = 256 << 20;
std::string PlacedWrapper(const std::string& root, std::string_view bytes);  // its path
Status PlaceWrapper(const std::string& root, std::string_view bytes);

// Of an attempt that was claimed here and whose exit record was not there a moment ago.
enum class Fate {
  kRunning,
  kEnding,  // asked to end, or its leftovers are being ended
  kOver,    // there is an exit record after all
  kLost     // its wrapper left none; `lost` says what is charged
};
struct Attempt {
  std::string folder;  // of the attempt
  const Plan* plan = nullptr;
  const StartRecord* start = nullptr;
  bool stop_asked = false;
  bool mirrored = false;  // a copy: when its files were written says nothing of the job
};
// Of the attempt, on the wrapper's own clock since its start: last beat, stage end or log growth.
Millis LastSign(const Attempt& attempt);
// What is known of an attempt without a wrapper; kept by the caller between two looks at it.
struct Leftovers {
  bool survivors = false;          // processes had lived on
  std::optional<LostRecord> lost;  // set with kLost, also where it could not be written
};
// Ends a wrapper that lives but is past its own deadlines by `margin` or does not answer a stop;
// when the wrapper is gone, ends every process that carries the token and settles `lost`.
Fate LookAfter(const Attempt& attempt, Millis margin, Clock& clock, Leftovers& leftovers);

// Writes `stop` and wakes the wrapper, if that is here. `run`: that stage only. Asking twice is as
// good as once, and so is asking before the job has begun.
Status AskToStop(const std::string& attempt_folder, const Plan& plan,
                 const std::optional<RunId>& run, Clock& clock);

// Launcher::Fetch where the folder can be read: at most `size` bytes at `offset` of a file below
// `folder`, which must be the handle's. No links are followed.
Result<std::string> FetchBelow(const std::string& folder, const LaunchHandle& handle,
                               const std::string& path, std::int64_t offset, std::int64_t size);

}  // namespace attune::launch
