// A training job that trains nothing: prints what Megatron-LM prints, at stated times, and
// misbehaves on request. The same argv gives the same lines in the fake launcher (virtual time) and
// in the real program attune_fake_train, so a campaign test can move from one to the other
// unchanged.
//
// Arguments it knows (Megatron-LM's meaning):
//   --train-iters N (1000)  --exit-interval N (0: off; a modulus of the absolute iteration)
//   --micro-batch-size N (1)  --global-batch-size N (8)  --seq-length N (128)  --num-ranks N (1)
//   --num-experts N (0: dense; else load_balancing_loss is printed)  --lr X  --seed N
//   --ckpt-step N (0): the first printed iteration is N + 1
//   --load DIR: goes on from its tracker file;  --save DIR --save-interval N: writes one
//   --eval-interval N --eval-iters N: lines are printed and time passes
// Speed is a product of factors on --fake-step-ms X (100), so that levers have effects:
//   micro-batch m: 0.4 + 0.6/m;  ranks 2: 0.55;  OPENBLAS_NUM_THREADS=2: 0.8 (with one rank);
//   --recompute: 1.2, --attention fused: 0.97, --optimizer-form foreach: 1.0, --slow X: X
// Noise is a function of (--fake-seed, the run's name): --fake-run-noise X and --fake-step-noise X
// (relative sd, 0.001 each).
// Behaviour: --fake-startup-ms N (200)  --fake-die-at K  --fake-exit-code N  --fake-signal N
//   --fake-oom-at K  --fake-oom-above M (micro-batches above M run out of memory at once)
//   --fake-nan-at K  --fake-hang-at K  --fake-ignore-term  --fake-print-mb N  --fake-silent
//   --fake-no-block (no argument block)
//   --fake-eat-mb N (memory it touches)
//   --fake-child-ms N  --fake-write PATH  --fake-half-times  --fake-twice K
//   --fake-printed-batch N  --fake-loss-shift X (relative)  --fake-drop-aux (load balancing loss 0)
//   --fake-drift X (relative change of the true step time over 100 steps)  --fake-end-hang (does
//   all steps, then never exits)  --fake-echo-args PATH --fake-echo-env PATH (what really arrived)
// A later occurrence of a flag wins. Other flags are accepted and land in the argument block.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "attune/base/units.h"

namespace attune::fakes {

struct FakeEvent {
  Millis at{0};      // since the process's start
  std::string line;  // without its newline
  bool step = false;
};

struct FakeTraining {
  std::vector<FakeEvent> events;  // in time order
  Millis ends_at{0};              // Millis::max(): never
  std::optional<int> exit_code, signal;
  // For the real program; the fake launcher honours ignore_term.
  bool ignore_term = false;
  int print_mb = 0;
  Millis child{0};  // a child in its own session that lives this long
  std::string write_path;
  std::string echo_args, echo_env;
  // Checkpoints it saves, when it does (time, iteration); they are files only in WriteCheckpoint.
  std::string save_dir, load_dir;
  std::vector<std::pair<Millis, std::int64_t>> saves;
};

// `run` names the run (base name of ATTUNE_RUN_DIR): replicas differ in noise by it alone. argv
// without the program's name. `loaded`: the iteration found under --load, which --ckpt-step
// overrules. Pure.
FakeTraining PlanFakeTraining(const std::vector<std::string>& args,
                              const std::map<std::string, std::string>& env, const std::string& run,
                              std::int64_t loaded = 0);

// The value of the last --name in args; empty when absent.
std::string FlagValue(const std::vector<std::string>& args, const std::string& name);
// Megatron-LM's tracker file, latest_checkpointed_iteration.txt; 0 when there is none.
std::int64_t LatestCheckpoint(const std::string& dir);
void WriteCheckpoint(const std::string& dir, std::int64_t iteration);

}  // namespace attune::fakes
