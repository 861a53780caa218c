// The measured form (control_plane.md 2a): a tuning run is the user's recipe under a closed table
// of rows, applied alike to baseline and candidates, and undone before anything ships. And the
// rehearsal's forms (4.2d): the user's own run, its intervals shortened to fall inside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attune/gates/rules.h"
#include "attune/model/arguments.h"
#include "attune/model/recipe.h"
#include "attune/model/verdict.h"

namespace attune {

struct MeasuredWindow {
  std::int64_t start_iteration = 0;  // s: the run's first printed iteration is s + 1
  int steps = 0;                     // W: at most so many; the watcher ends the run before
  bool profile = false;              // a few steps, after the first `profile_after` of them
  int profile_after = 0;             // warm-up and timed steps; at most W
  int profile_steps = 2;
  std::vector<int> profile_ranks{0};
  std::string run_dir;  // the run folder as the job sees it, or the wrapper's placeholder for it
};
// The absolute iteration after which the run ends by itself: s + W, or behind the profile.
std::int64_t LastIteration(const MeasuredWindow& window);

// The iterations that a profile touches, absolute: from the profiler's own warm-up, one step before
// what it records, to the step whose line shows that its files are written. Megatron-LM
// (training.py): torch.profiler's schedule waits start - 1 steps and warms up in one; it is stopped
// after iteration `end`, and that step's successor carries the time of writing.
struct ProfiledIterations {
  std::int64_t first = 0, last = 0;  // 0, 0: none
};
ProfiledIterations ProfiledBy(const MeasuredWindow& window);

// One row as it was applied, with what undoes it.
struct AppliedRow {
  InstrumentRow::Op op = InstrumentRow::Op::kSet;
  std::string name;
  std::string was, now;  // for people: "off", "on" or values
  std::string why;
  // Undo: every occurrence the row replaced, at its place, and whether the row added the flag.
  std::vector<std::pair<std::size_t, Argument>> replaced;
  bool added = false;
  std::optional<std::string> env_was;
};
struct Instrumented {
  Effective effective;
  std::vector<AppliedRow> rows;
};

// Whether scored runs of the recipe are profiled: unless it says no, Megatron-LM's are, and a
// custom trainer's where profile.set says how.
bool IsProfiled(const Recipe& recipe);

// Pure. Megatron-LM: the rows of `rules`; custom: measure.instrument of the recipe, where "{n}" is
// LastIteration, "{s}" the start and "{run}" the run folder, and profile.set, where "{p}" is the
// first profiled step counted from the process's start, "{q}" the last profiled iteration and
// "{ranks}" the ranks. A row that would change nothing is not applied.
Instrumented Instrument(const Recipe& recipe, const Effective& user, const MeasuredWindow& window,
                        const Rules& rules);
// Strip(Instrument(user)) == user, order and repeats included.
Effective Strip(const Instrumented& measured);
// Keys that readback must expect to differ, as flags and variables.
std::vector<std::string> InstrumentedNames(const Instrumented& measured);

// The command outside the arguments: a launcher of ranks must not restart what failed.
std::vector<std::string> InstrumentCommand(std::vector<std::string> command);

// ----- what a run may touch (control_plane.md 2b)

struct PathFound {
  std::string name;  // flag or variable
  std::string path;
  PathUse use = PathUse::kUnknown;
};
// Every path among arguments and environment. A name of the table has its use; any other value
// that holds "/" is looked up in workload.reads and workload.caches, and else is kUnknown.
std::vector<PathFound> FindPaths(const Recipe& recipe, const Effective& e, const Rules& rules);
// Writes outside the run folder and the declared caches, caches that are not declared, and paths
// whose use nobody states: each refuses the campaign by name.
std::vector<Finding> CheckPaths(const Recipe& recipe, const Effective& measured,
                                std::string_view run_dir, const Rules& rules);

// ----- rehearsal

struct RehearsalWindow {
  std::int64_t start_iteration = 0;
  int steps = 20;  // at most; fewer when the user's own save interval ends earlier inside
  std::string run_dir;
};
struct RehearsalForms {
  Effective first;                  // evaluates and saves below the run folder
  std::optional<Effective> second;  // restarts from that save; absent when the recipe saves nothing
  bool evaluates = false;
  bool saves = false;
  std::int64_t last_iteration = 0;  // of the first run, and what it saves
  int first_steps = 0;
  int second_steps = 0;
  bool IsVoid() const { return !evaluates && !saves; }
};
// `user` is the winner in user form. Megatron-LM's names (--save, --save-interval, --load,
// --eval-interval, --eval-iters, --exit-interval, --log-interval) are used for a custom recipe too,
// where its arguments have them.
RehearsalForms RehearsalForm(const Recipe& recipe, const Effective& user,
                             const RehearsalWindow& window, const Rules& rules);

}  // namespace attune
